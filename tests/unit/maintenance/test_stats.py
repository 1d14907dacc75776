"""What is stored and for whom, against a count by hand."""

from collections import defaultdict

import numpy as np
import pytest
import zarr

import frazil
from frazil.engine.refs.version import Branch, Tag, Version
from frazil.format.chunk_refs import Inline, Native, RefKind, Virtual
from frazil.ids import SnapshotId
from frazil.maintenance.executor import ThreadExecutor
from frazil.maintenance.id_sets import DistinctSum, GrowingKeySet, KeySet
from frazil.maintenance.stats import (
    OwnerSets,
    Pieces,
    Tally,
    chunk_totals,
    plan_stats,
    storage_stats,
)
from tests.unit.maintenance.repositories import Kept

SOURCE = "file:///data/of/others"
VERSIONS = pytest.mark.parametrize("version", [1, 2])

type Piece = tuple[str, object]


def lived_in(version: int) -> Kept:
    """Two arrays; a branch and a tag that share some of it; virtual and inline chunks."""
    kept = Kept(version)
    kept.commit("m0", array="a", at=0)
    kept.commit("m1", array="b", at=1)
    kept.repository.create_tag("t", kept.repository.lookup_branch("main"))
    kept.repository.create_branch("side", kept.repository.lookup_branch("main"))
    kept.commit("m2", array="a", at=0)
    kept.commit("s0", array="c", branch="side", at=3)
    session = kept.repository.writable_session("main")
    for at in range(3):
        session.store.set_virtual_ref(
            f"b/c/{at + 2}",
            f"{SOURCE}/{at % 2}.nc",
            offset=4 * (at % 2),
            length=4,
            validate_container=False,
        )
    session.commit("virtual")
    inline = kept.repository.reopen(frazil.RepositoryConfig(inline_chunk_threshold_bytes=512))
    session = inline.writable_session("main")
    zarr.open_array(session.store, path="a")[5:7] = 3
    session.commit("inline")
    return kept


def by_hand(kept: Kept) -> dict[tuple[str, str], dict[tuple[str, Piece], int]]:
    """Pieces of each ref and each array, with the size of each, by walking everything."""
    engine = kept.repository.engine
    found: dict[tuple[str, str], dict[tuple[str, Piece], int]] = defaultdict(dict)
    versions: list[tuple[tuple[str, str], Version]] = [
        (("branch", name), Branch(name)) for name in engine.branches()
    ]
    versions += [(("tag", name), Tag(name)) for name in engine.tags()]
    for ref, version in versions:
        for record in engine.ancestry(version):
            for node in engine.files.fetch_snapshot(record.id).nodes:
                for listed in node.array.manifests if node.array else ():
                    refs = engine.files.fetch_manifest(listed.id).arrays[node.id]
                    for row in range(len(refs)):
                        piece, size = _piece(refs.payload(row), (listed.id, node.id, row))
                        found[ref][piece] = size
                        found["array", str(node.path)][piece] = size
    return found


def _piece(payload: object, place: object) -> tuple[tuple[str, Piece], int]:
    match payload:
        case Native(chunk, offset, length):
            return ("native", (str(chunk), offset)), length
        case Virtual(location, offset, length):
            return ("virtual", (location, (offset, length))), length
        case Inline(data):
            return ("inline", ("", place)), len(data)
    raise AssertionError(payload)


def summed(pieces: dict[tuple[str, Piece], int]) -> tuple[int, int, int]:
    sums = dict.fromkeys(("native", "virtual", "inline"), 0)
    for (kind, _), size in pieces.items():
        sums[kind] += size
    return sums["native"], sums["virtual"], sums["inline"]


def check(kept: Kept) -> None:
    expected = by_hand(kept)
    stats = kept.repository.stats()
    refs = {key: pieces for key, pieces in expected.items() if key[0] != "array"}
    arrays = {key: pieces for key, pieces in expected.items() if key[0] == "array"}
    for owners, listed in ((refs, stats.refs), (arrays, stats.arrays)):
        assert {(each.kind, each.name) for each in listed} == set(owners)
        for each in listed:
            own = owners[each.kind, each.name]
            others = {p for key, some in owners.items() if key[1] != each.name for p in some}
            alone = {piece: size for piece, size in own.items() if piece not in others}
            shared = {piece: size for piece, size in own.items() if piece in others}
            for found, by_kind in (
                (each.total, own),
                (each.exclusive, alone),
                (each.shared, shared),
            ):
                numbers = found.native_bytes, found.virtual_bytes, found.inlined_bytes
                assert numbers == summed(by_kind), each.name
    everything = {piece: size for pieces in refs.values() for piece, size in pieces.items()}
    total = kept.repository.chunk_storage_stats()
    assert total == stats.total
    assert (total.native_bytes, total.virtual_bytes, total.inlined_bytes) == summed(everything)


@VERSIONS
def test_bytes_are_those_counted_by_hand(version: int) -> None:
    kept = lived_in(version)
    check(kept)
    stats = kept.repository.stats()
    assert stats.total.virtual_bytes == 8
    assert stats.total.inlined_bytes > 0
    assert stats.manifests > 3
    assert "refs: 3 of them" in str(stats)


def test_parts_of_a_pack_are_counted_one_by_one() -> None:
    kept = lived_in(2)
    before = kept.repository.chunk_storage_stats()
    kept.repository.pack("packed", branch="main")
    check(kept)
    tip = SnapshotId.parse(kept.repository.lookup_branch("main"))
    engine = kept.repository.engine
    offsets = [
        int(offset)
        for file in engine.files.fetch_snapshot(tip).manifest_files
        for refs in engine.files.fetch_manifest(file.id).arrays.values()
        for offset in refs.offset[refs.kind == RefKind.NATIVE]
    ]
    assert any(offsets)  # or nothing was packed
    assert kept.repository.chunk_storage_stats().native_bytes > before.native_bytes


def test_what_no_ref_leads_to_is_not_counted() -> None:
    kept = lived_in(2)
    before = kept.repository.chunk_storage_stats()
    tip = kept.repository.lookup_branch("main")
    kept.commit("lost", at=7)
    assert kept.repository.chunk_storage_stats().native_bytes > before.native_bytes
    kept.repository.reset_branch("main", tip)
    assert kept.repository.chunk_storage_stats() == before


def test_sums_can_be_added() -> None:
    total = lived_in(2).repository.chunk_storage_stats()
    assert (total + total).total_bytes() == 2 * total.total_bytes()
    with pytest.raises(TypeError):
        _ = total + 1


def test_an_empty_repository_stores_nothing() -> None:
    engine = Kept().repository.engine
    executor = ThreadExecutor(engine.files)
    found = storage_stats(engine, plan_stats(engine, executor), executor)
    assert (found.total, found.references, found.arrays) == (chunk_totals(engine), 0, [])
    assert [each.name for each in found.refs] == ["main"]


def test_owners_of_a_piece_add_up_batch_by_batch() -> None:
    tally = Tally(refs := OwnerSets([frozenset([0]), frozenset([1]), frozenset([2])]), OwnerSets())
    tally.arrays.code(frozenset([0]))
    keys, sizes = np.arange(4, dtype=np.uint64), np.full(4, 10, np.uint64)
    for owner in (0, 1, 2, 1):
        tally.add(Pieces.of(keys[owner:], sizes[owner:], refs=owner))
        tally.add(Pieces.of(keys[owner:], sizes[owner:], refs=owner))
    found = tally.done()
    assert found.keys.tolist() == [0, 1, 2, 3]
    assert [refs.sets[code] for code in found.refs] == [{0}, {0, 1}, {0, 1, 2}, {0, 1, 2}]


def test_each_key_counts_once() -> None:
    total, growing = DistinctSum(), GrowingKeySet()
    random = np.random.default_rng(1)
    seen: dict[int, int] = {}
    for _ in range(5):
        keys = random.integers(0, 200_000, 150_000).astype(np.uint64)
        total.add(keys, keys)
        growing.add(keys.copy())
        seen |= {int(key): int(key) for key in keys}
    assert total.done() == sum(seen.values())
    assert growing.done().keys.tolist() == sorted(seen)
    assert KeySet.union([]).has(keys).sum() == 0
