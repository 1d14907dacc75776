"""Which generation bytes are of. FORMATS: 0, 1.

What changed is not always in the files that a repository has: one without virtual chunks does not
tell how those were written. Then it is of the earliest generation that it can be.
"""

from collections.abc import Buffer
from dataclasses import dataclass
from typing import Any

from frazil.format.alpha.unpacking import (
    Fields,
    fields,
    is_flatbuffer,
    items,
    mapping,
    payload,
    unpack,
)
from frazil.format.alpha.v1pre import has_early_nodes
from frazil.format.envelope import FRAME_MAGIC, FileType
from frazil.format.generation import Generation

_ZSTD = FRAME_MAGIC.to_bytes(4, "little")


def snapshot_parts(data: Buffer) -> Any:
    """What a snapshot file holds, not taken apart; None for one in FlatBuffers."""
    content = payload(data, FileType.SNAPSHOT)
    if is_flatbuffer(content):
        return None
    return fields(unpack(content), (1, 7, 8, 9, 11), "a snapshot")


@dataclass(frozen=True, slots=True)
class Traces:
    """What a repository has that later generations have."""

    manifest: Buffer | None  # one of the snapshot's
    is_first: bool  # the snapshot has the name that every first one has since November 2024
    has_logs: bool
    has_config: bool


def late_generation(data: Buffer, traces: Traces) -> Generation:
    """Of a repository with today's names, from the snapshot of a branch."""
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
            return _second(parts, traces)


def _info_size(files: Any) -> int:
    """Fields of an entry of the list of manifests; 0 if there is none."""
    listed = items(files, "the list of manifests")
    return len(items(listed[0], "an entry of the list of manifests")) if listed else 0


def _second(parts: Fields, traces: Traces) -> Generation:
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
    """How many fields a virtual reference has in a flat manifest; 0 if there is none.

    1 stands for three of which the first is the location in a map.
    """
    content = payload(manifest, FileType.MANIFEST)
    parts = fields(unpack(content), (1, 2, 3, 4), "a manifest")
    for each in mapping(parts[-1], "the chunks of a manifest").values():
        match each:
            case {"Virtual": tuple() as reference} if reference:
                return 1 if isinstance(reference[0], dict) else len(reference)
    return 0
