"""Recognition: the generation before version 1 that a store or a file is of.

Looks at names first, then at the newest snapshot of `main`. A repository does not always show what
changed: one without virtual chunks does not tell how those were written. It then counts as of the
earliest generation that it can be.
"""

from collections.abc import Buffer
from dataclasses import dataclass
from itertools import islice
from typing import Any

from frazil.engine.files.object_keys import CONFIG_YAML, MANIFESTS, SNAPSHOTS, TRANSACTIONS
from frazil.engine.refs.refs import MAIN
from frazil.errors import FormatError, ObjectNotFoundError, StorageError
from frazil.format.envelope import FRAME_MAGIC, FileType
from frazil.format.generation import Generation
from frazil.generations.alpha_refs import OldRef, RefFile, RefFiles, decode_old_ref, parse_ref_key
from frazil.generations.alpha_snapshot import decode_old_snapshot
from frazil.generations.msgpack_values import (
    Fields,
    fields,
    is_flatbuffer,
    items,
    mapping,
    payload,
    unpack,
)
from frazil.generations.older_layout import OlderLayout
from frazil.generations.v1pre import has_early_nodes
from frazil.ids import INITIAL_SNAPSHOT, SnapshotId
from frazil.objectstore.protocol import Data, ObjectInfo, ObjectStore

_ZSTD = FRAME_MAGIC.to_bytes(4, "little")


def snapshot_parts(data: Buffer) -> Any:
    """The undecoded fields of a snapshot file; None for one in FlatBuffers."""
    content = payload(data, FileType.SNAPSHOT)
    if is_flatbuffer(content):
        return None
    return fields(unpack(content), (1, 7, 8, 9, 11), "a snapshot")


@dataclass(frozen=True, slots=True)
class Traces:
    """Features of a repository that only later generations have."""

    manifest: Buffer | None  # one of the snapshot's
    is_first: bool  # the snapshot has the name that every first one has since November 2024
    has_logs: bool
    has_config: bool


def late_generation(data: Buffer, traces: Traces) -> Generation:
    """The generation of a repository with today's keys, from the snapshot of a branch."""
    parts = snapshot_parts(data)
    if parts is None:
        content = payload(data, FileType.SNAPSHOT)
        return Generation.V1PRE1 if has_early_nodes(content) else Generation.V1PRE2
    match len(parts):
        case 8:
            return Generation.A3D if _info_size(parts[5]) == 4 else Generation.A3E
        case 9 if isinstance(fields(parts[-4], (3,), "a snapshot's metadata")[0], str):
            return Generation.A3A
        case 9:
            return Generation.A3C if _info_size(parts[0]) == 4 else Generation.A3B
        case _:
            return _recognize_a2(parts, traces)


def _info_size(files: Any) -> int:
    """Fields of an entry of the list of manifests; 0 if there is none."""
    listed = items(files, "the list of manifests")
    return len(items(listed[0], "an entry of the list of manifests")) if listed else 0


def _recognize_a2(parts: Fields, traces: Traces) -> Generation:
    nodes = list(mapping(parts[-1], "the nodes of a snapshot").values())
    if nodes:
        is_numbered = isinstance(fields(nodes[0], (4,), "a node")[0], int)
    else:
        is_numbered = not (traces.is_first or traces.has_config)
    if is_numbered:
        return Generation.A2E
    manifest = traces.manifest
    if manifest is not None and bytes(memoryview(manifest)[:4]) == _ZSTD:
        return Generation.A2K
    if len(parts) == 11 and _info_size(parts[2]) == 3:
        return Generation.A2J
    if manifest is not None and virtual_fields(manifest) == 4:
        return Generation.A2I
    if traces.has_config:
        return Generation.A2H
    return Generation.A2G if traces.has_logs or traces.is_first else Generation.A2F


def virtual_fields(manifest: Buffer) -> int:
    """The number of fields of a virtual reference in a flat manifest; 0 if there is none.

    1 stands for three of which the first is the location in a map.
    """
    content = payload(manifest, FileType.MANIFEST)
    parts = fields(unpack(content), (1, 2, 3, 4), "a manifest")
    for each in mapping(parts[-1], "the chunks of a manifest").values():
        match each:
            case {"Virtual": tuple() as reference} if reference:
                return 1 if isinstance(reference[0], dict) else len(reference)
    return 0


def old_generation(store: ObjectStore) -> Generation | None:
    """The generation before version 1 that a store holds.

    None if it holds none, or cannot list: refs could not be found.
    """
    try:
        later, first = (list(store.list(folder)) for folder in ("refs/", "r/"))
    except StorageError:
        return None
    if (file := _newest_of_main(store, later)) is not None:
        return _with_refs(store, file)
    if (file := _newest_of_main(store, first)) is not None:
        return _recognize_a1(store, file)
    if _newest_of_main(store, first, documented=True) is not None:
        return Generation.ALPHA1
    return None


def _newest_of_main(
    store: ObjectStore, listed: list[ObjectInfo], *, documented: bool = False
) -> RefFile | None:
    """The newest readable file of `main`, or of another branch if there is none."""
    found = (parse_ref_key(each.key, documented=documented) for each in listed)
    branches = RefFiles.of(found).branches
    if MAIN not in branches:
        return None
    others = (file for name, files in branches.items() if name != MAIN for file in files)
    return next(
        (file for file in (*branches[MAIN], *others) if _is_readable(store, file)),
        branches[MAIN][0],
    )


def _is_readable(store: ObjectStore, file: RefFile) -> bool:
    try:
        decode_old_ref(store.get(file.key).data)
    except FormatError:
        return False
    return True


def _with_refs(store: ObjectStore, file: RefFile) -> Generation:
    """A2 and later."""
    ref = _fetch_ref(store, file)
    if ref.has_long_id:
        return Generation.A2A
    try:
        data = store.get(f"{SNAPSHOTS}{ref.snapshot}").data
    except ObjectNotFoundError:
        if _any_name(store, SNAPSHOTS).endswith(".msgpack"):
            return Generation.A2B
        raise
    if file.width == 13:
        return Generation.A2C
    if file.separator == ":":
        return Generation.A2D
    traces = Traces(
        manifest=_manifest(store, data, ref.snapshot),
        is_first=ref.snapshot == INITIAL_SNAPSHOT,
        has_logs=bool(_any_name(store, TRANSACTIONS)),
        has_config=_exists(store, CONFIG_YAML),
    )
    return late_generation(data, traces)


def _recognize_a1(store: ObjectStore, file: RefFile) -> Generation:
    """A1."""
    if _any_name(store, "s/").endswith("==.msgpack"):
        return Generation.A1A
    ref = _fetch_ref(store, file)
    if ref.written_at_us is not None:
        return Generation.A1B
    if _any_name(store, "c/").endswith(".msgpack"):
        return Generation.A1C
    named = OlderLayout(store, Generation.A1D)
    data = named.get(f"{SNAPSHOTS}{ref.snapshot}").data
    manifest = _manifest(named, data, ref.snapshot)
    has_maps = manifest is not None and virtual_fields(manifest) == 1
    return Generation.A1E if has_maps else Generation.A1D


def _fetch_ref(store: ObjectStore, file: RefFile) -> OldRef:
    try:
        return decode_old_ref(store.get(file.key).data)
    except FormatError as error:
        raise error.at(file.key) from error


def _manifest(store: ObjectStore, data: Data, name: SnapshotId) -> Data | None:
    """One of the snapshot's."""
    try:
        files = decode_old_snapshot(data, name).snapshot.manifest_files
        return store.get(f"{MANIFESTS}{files[0].id}").data if files else None
    except (FormatError, ObjectNotFoundError):
        return None  # reading it raises later


def _any_name(store: ObjectStore, folder: str) -> str:
    return next((each.key for each in islice(store.list(folder), 1)), "")


def _exists(store: ObjectStore, key: str) -> bool:
    try:
        store.head(key)
    except ObjectNotFoundError:
        return False
    return True
