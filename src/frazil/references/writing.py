"""Nodes and references that were planned, put into a session."""

import json
from collections.abc import Mapping
from typing import Any

import numpy as np

from frazil.errors import AlreadyExistsError, InvalidInputError
from frazil.flatbuf.columns import StringColumn
from frazil.flatbuf.strings import Strings
from frazil.format.chunk_refs import ChunkRefs
from frazil.format.payloads import Native, RefKind
from frazil.paths import ROOT, NodePath
from frazil.references.plan import ImportPlan, group_text
from frazil.repo.session import Session


def write_plan(session: Session, plan: ImportPlan, *, validate_containers: bool) -> None:
    """All of it, or nothing if there is anything wrong."""
    _require_room(session, plan)
    if validate_containers:
        for array in plan.arrays:
            name = f"{plan.where}: array {str(array.path)!r}"
            require_containers(session, name, array.refs.location.pruned().strings)
    # Bytes first: what can fail for reasons of its own happens before the session changes.
    stored = [_with_inline_stored(session, array.refs) for array in plan.arrays]
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


def _with_inline_stored(session: Session, refs: ChunkRefs) -> ChunkRefs:
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
