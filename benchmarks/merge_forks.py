"""Sixteen forks, 1,000,000 native references between them, merged into one session and committed.

As many chunks would take the reference many minutes to write. So each engine writes one chunk in a
fork, and the other references are put into its pickle: of objects that are never read.
"""

import os
import pickle
from itertools import pairwise
from pathlib import Path
from types import ModuleType
from typing import Any

import msgpack  # type: ignore[import-untyped]  # the package has no type information
import numpy as np
import zarr

from benchmarks.storages import storage
from benchmarks.timing import Stopwatch
from frazil.format.chunk_refs import ChunkRefs
from frazil.paths import NodePath

FORKS = 16
COUNT = int(os.environ.get("BENCH_REFS", "1000000"))
GRID = (COUNT // 1000, 1000)
CHUNK_BYTES = 4_000_000


def build(engine: ModuleType, root: Path, stopwatch: Stopwatch) -> None:
    """Not measured."""
    del stopwatch
    config = engine.RepositoryConfig.default()
    config.inline_chunk_threshold_bytes = 0
    repo = engine.Repository.create(storage(engine, root), config=config)
    session = repo.writable_session("main")
    zarr.create_array(session.store, name="v", shape=GRID, chunks=(1, 1), dtype="f4")
    session.commit("array")
    session = repo.writable_session("main")
    index = np.stack(np.unravel_index(np.arange(COUNT), GRID), axis=1).astype(np.uint32)
    ids = np.random.default_rng(0).integers(0, 256, (COUNT, 12), np.uint8)
    edges = [COUNT * i // FORKS for i in range(FORKS + 1)]
    for number, (start, stop) in enumerate(pairwise(edges)):
        rows = slice(start, stop)
        fork = session.fork()
        if engine.__name__ == "frazil":
            refs = ChunkRefs.native(index[rows], ids[rows], 0, CHUNK_BYTES)
            fork.engine.set_chunk_refs(NodePath("/v"), refs)
        else:
            zarr.open_array(fork.store, path="v")[tuple(index[start].tolist())] = 1.0
            fork = _with_references(fork, index[rows], ids[rows])
        _place(root, number).write_bytes(pickle.dumps(fork))


def _place(root: Path, number: int) -> Path:
    return root.with_name(f"fork{number:02}.pickle")


class _Pairs(list[tuple[Any, Any]]):
    """A map whose keys may be lists."""


def _with_references(fork: Any, index: np.ndarray, ids: np.ndarray) -> Any:
    """A fork of the reference with references instead of the one chunk that was written in it."""
    state = fork.__getstate__()
    parts = msgpack.unpackb(state["_session"], strict_map_key=False, object_pairs_hook=_Pairs)
    (kind, changes), *_ = next(part for part in parts if _is_change_set(part))
    assert kind == "Edit"
    chunks = next(part for part in changes if isinstance(part, _Pairs) and part)
    ((node, _),) = chunks
    pairs = zip(index.tolist(), ids, strict=True)
    chunks[:] = [
        (
            node,
            _Pairs(
                (key, _Pairs([("Ref", [[raw.tobytes(), []], 0, CHUNK_BYTES])]))
                for key, raw in pairs
            ),
        )
    ]
    fork.__setstate__(state | {"_session": _packed(parts)})
    return fork


def _is_change_set(part: object) -> bool:
    return isinstance(part, _Pairs) and bool(part) and part[0][0] == "Edit"


def _packed(value: Any) -> bytes:
    packer = msgpack.Packer()
    match value:
        case _Pairs():
            head, inner = (
                packer.pack_map_header(len(value)),
                [each for pair in value for each in pair],
            )
        case list():
            head, inner = packer.pack_array_header(len(value)), value
        case _:
            head, inner = packer.pack(value), []
    return bytes(head) + b"".join(map(_packed, inner))


def merge(engine: ModuleType, root: Path, stopwatch: Stopwatch) -> None:
    repo = engine.Repository.open(storage(engine, root))
    session = repo.writable_session("main")
    forks = [pickle.loads(_place(root, number).read_bytes()) for number in range(FORKS)]  # noqa: S301 -- our own
    with stopwatch("merge"):
        session.merge(*forks)
    with stopwatch("commit"):
        session.commit("all that the forks wrote")
    stopwatch.combine("merge + commit", ("merge", "commit"))


STAGES = {"build": build, "merge": merge}
