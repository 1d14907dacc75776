"""Plans the nodes of a repository from a set of references: all is decided before anything is
written.
"""

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import PurePath
from typing import Any
from urllib.parse import quote

import numpy as np
import numpy.typing as npt

from frazil.engine.changes.zarr_metadata import parse_node_metadata
from frazil.engine.session.session import Session
from frazil.errors import AlreadyExistsError, FormatError, InvalidInputError
from frazil.flatbuf.columns import StringColumn
from frazil.flatbuf.strings import Strings
from frazil.format.chunk_refs import ChunkRefs, Native, RefKind
from frazil.format.urls import normalize_location
from frazil.paths import ROOT, NodePath
from frazil.references.columns import (
    ARRAY_2,
    ATTRIBUTES_2,
    GROUP_2,
    NODE_3,
    ChunkColumns,
    ReferenceSet,
    reference_error,
    split_document_key,
)
from frazil.references.zarr_v2 import array_document, group_document

# Targets of references, as locations of virtual chunks.
#
# Reference sets hold what fsspec opens: paths of this machine, and URLs in which nothing is encoded
# unless they are of HTTP. Locations of virtual chunks are percent-encoded.

_ALIASES = {"s3a": "s3", "s3n": "s3", "local": "file"}
_URL = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://(.*)", re.DOTALL)
_ENCODED_ALREADY = frozenset({"http", "https", "vcc"})
_KEPT = "!$&'()*+,;=:@/~ "  # of a path; blanks may stay, `?`, `#` and `%` may not


def resolve_locations(texts: Strings, *, root: str | None) -> Strings:
    """The location of each text; relative paths are below `root`, a directory or a URL."""
    return Strings.from_list([locate(text, root=root) for text in texts.to_texts()])


def locate(text: str, *, root: str | None) -> str:
    """Raises InvalidInputError for what is no location."""
    if "::" in text:
        raise InvalidInputError(
            f"{text!r} is a chain of filesystems: no location of a virtual chunk",
            kind="invalid-virtual-ref",
        )
    url = _URL.fullmatch(text)
    if url is None:
        return _local(text, root=root)
    scheme, rest = url[1].lower(), url[2]
    scheme = _ALIASES.get(scheme, scheme)
    if scheme == "file":
        return _local(rest, root=root)
    if scheme in _ENCODED_ALREADY:
        return normalize_location(f"{scheme}://{rest}")
    bucket, slash, key = rest.partition("/")
    return normalize_location(f"{scheme}://{bucket}{slash}{quote(key, safe=_KEPT)}")


def _local(path: str, *, root: str | None) -> str:
    if not path:
        raise InvalidInputError("an empty path is no location", kind="invalid-virtual-ref")
    if PurePath(path).is_absolute():
        return normalize_location("file://" + quote(path, safe="/"))
    if root is None:
        raise InvalidInputError(
            f"the path {path!r} is relative: say with `root` what to",
            kind="invalid-virtual-ref",
        )
    if not _URL.fullmatch(root) and not PurePath(root).is_absolute():
        raise InvalidInputError(f"root {root!r} is neither a URL nor an absolute path")
    return locate(f"{root.rstrip('/')}/{path}", root=None)


type SizesOf = Callable[[Strings], npt.NDArray[np.uint64]]  # bytes of each file


@dataclass(frozen=True, slots=True, eq=False)
class ArrayImport:
    path: NodePath
    document: bytes  # zarr.json
    refs: ChunkRefs  # virtual and inline


@dataclass(frozen=True, slots=True, eq=False)
class ImportPlan:
    where: str
    groups: Mapping[NodePath, Mapping[str, Any]]  # attributes
    arrays: tuple[ArrayImport, ...]


def plan_import(
    references: ReferenceSet,
    *,
    group: NodePath,
    root: str | None,
    last_modified: int,
    sizes_of: SizesOf,
) -> ImportPlan:
    """Nodes below `group`. Raises FormatError, naming the set and the key in it.

    `last_modified` is what is expected of all files, in Unix seconds; 0 for nothing.
    """
    attributes = _attributes(references)
    groups: dict[NodePath, Mapping[str, Any]] = {}
    arrays = []
    for key, document in references.documents.items():
        path, name = split_document_key(key)
        node = _node_path(references.where, key, group, path)
        with_arrays = name == ARRAY_2 or (name == NODE_3 and document.get("node_type") == "array")
        if with_arrays:
            text = _array_text(references.where, key, document, attributes.get(path, {}))
            refs = _chunk_refs(
                references.where,
                path,
                references.chunks[path],
                root=root,
                last_modified=last_modified,
                sizes_of=sizes_of,
            )
            arrays.append(ArrayImport(node, text, refs))
        elif name == NODE_3:
            groups[node] = _group_attributes(references.where, key, document)
        elif name == GROUP_2:
            groups[node] = attributes.get(path, {})
    for each in arrays:
        for above in each.path.ancestors:
            groups.setdefault(above, {})
    return ImportPlan(references.where, groups, tuple(arrays))


def _node_path(where: str, key: str, group: NodePath, path: str) -> NodePath:
    try:
        return NodePath(group.descendant_prefix + path) if path else group
    except InvalidInputError as error:
        raise reference_error(where, key, error.message) from error


def _attributes(references: ReferenceSet) -> dict[str, Mapping[str, Any]]:
    return {
        split_document_key(key)[0]: document
        for key, document in references.documents.items()
        if split_document_key(key)[1] == ATTRIBUTES_2
    }


def _group_attributes(where: str, key: str, document: Mapping[str, Any]) -> Mapping[str, Any]:
    if document.get("node_type") != "group":
        raise reference_error(where, key, f"node_type is {document.get('node_type')!r}")
    attributes = document.get("attributes") or {}
    if not isinstance(attributes, Mapping):
        raise reference_error(where, key, "attributes is not an object")
    return attributes


def _array_text(
    where: str, key: str, document: Mapping[str, Any], attributes: Mapping[str, Any]
) -> bytes:
    try:
        if key.rpartition("/")[2] == NODE_3:
            # In a repository chunks have no keys, so theirs may be the usual ones.
            made = {**document, "chunk_key_encoding": {"name": "default"}}
        else:
            made = array_document(document, attributes)
        text = json.dumps(made).encode()
        parse_node_metadata(text)  # here rather than when half is done
    except InvalidInputError as error:
        raise reference_error(where, key, error.message) from error
    return text


def group_text(attributes: Mapping[str, Any]) -> bytes:
    return json.dumps(group_document(attributes)).encode()


def _chunk_refs(
    where: str,
    array: str,
    chunks: ChunkColumns,
    *,
    root: str | None,
    last_modified: int,
    sizes_of: SizesOf,
) -> ChunkRefs:
    column = chunks.location.pruned()
    try:
        strings = resolve_locations(column.strings, root=root)
    except InvalidInputError as error:
        raise FormatError(f"array {array!r}: {error.message}", where=where) from error
    length = chunks.length
    if chunks.whole.any():
        length = length.copy()
        used = StringColumn(column.codes[chunks.whole], strings).pruned()
        length[chunks.whole] = sizes_of(used.strings)[used.codes]
    inline = chunks.inline.present
    return ChunkRefs.from_columns(
        chunks.index,
        np.where(inline, RefKind.INLINE, RefKind.VIRTUAL),
        offset=chunks.offset,
        length=length,
        location=StringColumn(column.codes, strings),
        last_modified=np.where(inline, 0, last_modified),
        inline=chunks.inline,
    )


# Nodes and references that were planned, put into a session.


def write_plan(session: Session, plan: ImportPlan, *, validate_containers: bool) -> None:
    """All of it, or nothing if there is anything wrong."""
    _require_room(session, plan)
    if validate_containers:
        for array in plan.arrays:
            name = f"{plan.where}: array {str(array.path)!r}"
            require_containers(session, name, array.refs.location.pruned().strings)
    # Bytes first: what can fail for reasons of its own happens before the session changes.
    stored = [_store_large_inline(session, array.refs) for array in plan.arrays]
    before = session.copy_changes()
    try:
        for path in sorted(plan.groups):
            _write_group(session, path, plan.groups[path])
        for array, refs in zip(plan.arrays, stored, strict=True):
            session.set_node(array.path, array.document)
            if len(refs):
                session.set_chunk_refs(array.path, refs)
    except BaseException:
        session.revise(lambda _: before)
        raise


def _require_room(session: Session, plan: ImportPlan) -> None:
    for array in plan.arrays:
        found = session.find_node(array.path)
        if array.path == ROOT:
            raise InvalidInputError(
                f"{plan.where}: is one array, which cannot be the root of a repository:"
                " say with `group` where it goes",
                kind="bad-metadata",
            )
        if found is not None:
            raise AlreadyExistsError(f"there is a node at `{array.path}` already: delete it first")
        for above in array.path.ancestors:
            _require_group(session, above)
    for path in plan.groups:
        _require_group(session, path)


def _require_group(session: Session, path: NodePath) -> None:
    found = session.find_node(path)
    if found is not None and found.array is not None:
        raise AlreadyExistsError(f"there is an array at `{path}`, where a group should be")


def require_containers(session: Session, where: str, locations: Strings) -> None:
    """Raises InvalidInputError, naming the first location that no container covers."""
    containers = session.files.virtual.access.all_containers()
    covered = containers.covered(locations)
    if not covered.all():
        location = locations.text(int(np.argmin(covered)))
        raise InvalidInputError(
            f"{where}: no virtual chunk container covers {location!r}: add one to the"
            " configuration of the repository, or pass validate_containers=False",
            kind="no-container-for-virtual-chunk",
        )


def _write_group(session: Session, path: NodePath, attributes: Mapping[str, Any]) -> None:
    """Attributes are added to those of a group that is there."""
    found = session.find_node(path)
    if found is None:
        session.set_node(path, group_text(attributes))
    elif attributes:
        old = json.loads(found.user_data)
        merged = {**(old.get("attributes") or {}), **attributes}
        session.set_node(path, json.dumps({**old, "attributes": merged}).encode())


def _store_large_inline(session: Session, refs: ChunkRefs) -> ChunkRefs:
    """The same references, with chunks that are too large for a manifest in objects."""
    writer = session.chunk_writer()
    large = np.flatnonzero(
        (refs.kind == RefKind.INLINE) & (refs.length > writer.inline_threshold_bytes)
    )
    if not len(large):
        return refs
    kind, chunk_id, codes = refs.kind.copy(), refs.chunk_id.copy(), refs.inline.codes.copy()
    for row in large.tolist():
        payload = writer.put_chunk(refs.inline.item(row) or b"")
        if isinstance(payload, Native):
            kind[row], codes[row] = RefKind.NATIVE, -1
            chunk_id[row] = np.frombuffer(payload.chunk_id.raw, np.uint8)
    return ChunkRefs.from_columns(
        refs.index,
        kind,
        chunk_id=chunk_id,
        offset=refs.offset,
        length=refs.length,
        location=refs.location,
        etag=refs.etag,
        last_modified=refs.last_modified,
        inline=StringColumn(codes, refs.inline.strings),
    )


# Sizes of files that a reference names as a whole.


def sizes_of_files(session: Session, locations: Strings) -> npt.NDArray[np.uint64]:
    """Bytes of each file, asked for concurrently; their containers must be authorized."""
    files = session.files
    sizes = files.pool.map(files.virtual.size_bytes, locations.to_texts())
    return np.array(list(sizes), dtype=np.uint64)
