"""Rules about snapshots of version 1 and transaction logs, over random histories.

What must be in the files is told by a model of the hierarchy and by the live reference; the bytes
are read with the plain `flatbuffers` package. Neither frazil's verifier nor its decoders take part.
"""

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import icechunk
import numpy as np
import pytest
import zarr
import zstandard
from flatbuffers.table import Table as PlainTable
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from frazil.api import Repository, Storage, local_filesystem_storage
from frazil.config import (
    ManifestConfig,
    ManifestSplitCondition,
    ManifestSplitDimCondition,
    ManifestSplittingConfig,
    RepositoryConfig,
)
from frazil.ids import parse_base32
from frazil.objectstore.memory import MemoryStore
from tests.examples_count import scaled

LISTS = {  # slots of a transaction log
    "new_groups": 1,
    "new_arrays": 2,
    "deleted_groups": 3,
    "deleted_arrays": 4,
    "updated_arrays": 5,
    "updated_groups": 6,
}
PATHS = ["a", "b", "a/c", "a/d", "b/e"]
actions = st.tuples(st.sampled_from(["group", "array", "delete", "edit"]), st.sampled_from(PATHS))
commits = st.lists(st.lists(actions, min_size=1, max_size=5), min_size=1, max_size=4)


def root_of(file: bytes) -> PlainTable:
    """The table in a file: 39 bytes of header, of which the last says whether the rest is zstd."""
    body = file[39:]
    data = zstandard.ZstdDecompressor().decompressobj().decompress(body) if file[38] else body
    return PlainTable(bytearray(data), int.from_bytes(data[:4], "little"))


def struct_of(table: PlainTable, slot: int, size: int) -> bytes | None:
    offset = table.Offset(4 + 2 * slot)
    place = table.Pos + offset
    return bytes(table.Bytes[place : place + size]) if offset else None


def structs_of(table: PlainTable, slot: int, size: int) -> list[bytes]:
    """A vector of structs."""
    offset = table.Offset(4 + 2 * slot)
    if not offset:
        return []
    start = table.Vector(offset)
    stop = start + table.VectorLen(offset) * size
    return [bytes(table.Bytes[place : place + size]) for place in range(start, stop, size)]


@dataclass(frozen=True)
class Thing:
    """A node as it was made once, and how often it was edited since."""

    number: int
    is_array: bool
    edits: int = 0


@dataclass
class Model:
    """The hierarchy by path; the root is always there."""

    nodes: dict[str, Thing] = field(default_factory=dict)
    made: int = 0

    def act(self, store: Any, action: str, path: str) -> None:
        above = path.rpartition("/")[0]
        if action in {"group", "array"}:
            if path in self.nodes or (above and self.kind(above) != "group"):
                return
            self.made += 1
            self.nodes[path] = Thing(self.made, action == "array")
            if action == "group":
                zarr.create_group(store, path=path)
            else:
                zarr.create_array(store, name=path, shape=(4,), chunks=(2,), dtype="i4")
        elif path in self.nodes:
            node = self.nodes[path]
            if action == "edit":
                self.nodes[path] = replace(node, edits=node.edits + 1)
                opened: Any = zarr.open(store, path=path, mode="r+")
                opened.attrs["edits"] = node.edits + 1
            else:
                self.nodes = {
                    name: each
                    for name, each in self.nodes.items()
                    if name != path and not name.startswith(f"{path}/")
                }
                del zarr.open_group(store, mode="r+")[path]

    def kind(self, path: str) -> str:
        node = self.nodes.get(path)
        return "none" if node is None else "array" if node.is_array else "group"


def expected_lists(before: dict[str, Thing], after: dict[str, Thing]) -> dict[str, set[str]]:
    """Paths that a log must list, each in one list at most."""
    old = {node.number: (path, node) for path, node in before.items()}
    found: dict[str, set[str]] = {name: set() for name in LISTS}
    for path, node in after.items():
        kind = "arrays" if node.is_array else "groups"
        if node.number not in old:
            found[f"new_{kind}"].add(f"/{path}")
        elif old[node.number][1] != node:
            found[f"updated_{kind}"].add(f"/{path}")
    kept = {node.number for node in after.values()}
    for path, node in before.items():
        if node.number not in kept:
            found[f"deleted_{'arrays' if node.is_array else 'groups'}"].add(f"/{path}")
    return found


@pytest.mark.compat
@settings(max_examples=scaled(8), suppress_health_check=[HealthCheck.too_slow])
@given(commits)
def test_each_changed_node_is_in_the_one_list_that_says_what_happened(
    tmp_path_factory: pytest.TempPathFactory, history: list[list[tuple[str, str]]]
) -> None:
    root: Path = tmp_path_factory.mktemp("repo")
    repo = Repository.create(local_filesystem_storage(root))
    session = repo.writable_session("main")
    zarr.create_group(session.store)
    parent, model = session.commit("root"), Model()
    for acts in history:
        session, before = repo.writable_session("main"), dict(model.nodes)
        for action in acts:
            model.act(session.store, *action)
        if not session.has_uncommitted_changes:
            continue
        snapshot = session.commit("more")
        expected = expected_lists(before, model.nodes)
        log = root_of((root / "transactions" / snapshot).read_bytes())
        listed = {name: structs_of(log, slot, 8) for name, slot in LISTS.items()}
        for kind in ("groups", "arrays"):
            all_ids = [raw for name, ids in listed.items() if name.endswith(kind) for raw in ids]
            assert len(set(all_ids)) == len(all_ids)
        assert {name: len(ids) for name, ids in listed.items()} == {
            name: len(paths) for name, paths in expected.items()
        }
        theirs = icechunk.Repository.open(icechunk.local_filesystem_storage(str(root)))
        told = theirs.diff(from_snapshot_id=parent, to_snapshot_id=snapshot)
        for name, paths in expected.items():
            if not name.startswith("deleted") or paths.isdisjoint(
                f"/{each}" for each in model.nodes
            ):
                assert set(getattr(told, name)) == paths, name
        parent = snapshot


@settings(max_examples=scaled(10))
@given(st.lists(st.integers(0, 11), min_size=1, max_size=6), st.integers(1, 4))
def test_snapshots_of_version_1_name_their_parent_and_list_manifests_in_order(
    starts: list[int], split: int
) -> None:
    sizes = ManifestSplittingConfig.from_dict(
        {ManifestSplitCondition.AnyArray(): {ManifestSplitDimCondition.Any(): split}}
    )
    config = RepositoryConfig(manifest=ManifestConfig(splitting=sizes))
    store = MemoryStore()
    repo = Repository.create(Storage(store), config, spec_version=1)
    session = repo.writable_session("main")
    array = zarr.create_array(session.store, name="a", shape=(12,), chunks=(1,), dtype="i4")
    array[:] = np.arange(12) + 1
    history = [repo.lookup_branch("main"), session.commit("all")]
    for number, start in enumerate(starts):
        session = repo.writable_session("main")
        zarr.open_array(session.store, path="a")[start:] = -number - 1
        history.append(session.commit("some"))
    listed: set[bytes] = set()
    for above, snapshot in zip([None, *history], history, strict=False):
        table = root_of(bytes(store.get(f"snapshots/{snapshot}").data))
        assert struct_of(table, 0, 12) == parse_base32(snapshot, 12)
        assert struct_of(table, 1, 12) == (None if above is None else parse_base32(above, 12))
        manifests = [info[:12] for info in structs_of(table, 6, 32)]
        assert manifests == sorted(set(manifests))
        listed.update(manifests)
    stored = {info.key.removeprefix("manifests/") for info in store.list("manifests/")}
    assert listed == {parse_base32(name, 12) for name in stored}
    assert len(listed) >= 12 // split
