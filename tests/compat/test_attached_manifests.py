"""Manifests that others wrote for a session: as if the session had written them itself."""

from pathlib import Path

import hypothesis.strategies as st
import icechunk
import numpy as np
import numpy.typing as npt
import pytest
import zarr
from hypothesis import given, settings

import frazil
from frazil.engine.changes.attached_manifests import AttachedManifest, EmptiedCell
from frazil.engine.session.session import Session
from frazil.errors import InvalidInputError, SessionStateError
from frazil.format.chunk_index import ChunkSet
from frazil.format.chunk_refs import ChunkRefs
from frazil.format.manifest import Manifest
from frazil.format.transaction_log import TransactionLog, decode_txlog, encode_txlog_stream
from frazil.ids import ManifestId, NodeId, SnapshotId
from frazil.objectstore.credentials import LocalFileSystemAccess
from frazil.paths import NodePath
from tests.examples_count import scaled

PATH = NodePath("/v")
SIZE = 16  # bytes of a chunk of four


@pytest.fixture
def repo(tmp_path: Path) -> frazil.Repository:
    (tmp_path / "values").write_bytes(np.arange(64, dtype="<i4").tobytes())
    config = frazil.RepositoryConfig.default()
    prefix = f"file://{tmp_path}/"
    container = frazil.VirtualChunkContainer(prefix, frazil.local_filesystem_store(str(tmp_path)))
    config.set_virtual_chunk_container(container)
    config.manifest = frazil.ManifestConfig(
        splitting=frazil.ManifestSplittingConfig.from_dict(
            {frazil.ManifestSplitCondition.AnyArray(): {frazil.ManifestSplitDimCondition.Any(): 2}}
        )
    )
    repo = frazil.Repository.create(
        frazil.local_filesystem_storage(str(tmp_path / "repo")),
        config,
        authorize_virtual_chunk_access={prefix: LocalFileSystemAccess()},
    )
    repo.save_config()
    session = repo.writable_session("main")
    zarr.create_array(
        session.store,
        name="v",
        shape=(16,),
        chunks=(4,),
        dtype="<i4",
        compressors=None,
        fill_value=-1,
    )
    session.commit("an array")
    return repo


def written(session: Session, folder: Path, chunks: list[int]) -> AttachedManifest:
    """A manifest for these chunks, each the values of its place."""
    index = np.array(chunks, dtype=np.uint32).reshape(-1, 1)
    location = f"file://{folder}/values"
    refs = ChunkRefs.virtual(index, [location] * len(index), index[:, 0] * SIZE, SIZE)
    manifest = Manifest(id=ManifestId.random(), arrays={session.node(PATH).id: refs})
    file = session.files.put_manifest(manifest)
    return AttachedManifest(file, refs.bounding_box(), ChunkSet.of(index))


def read_by_the_reference(folder: Path) -> tuple[npt.NDArray[np.int32], list[list[int]]]:
    repo = icechunk.Repository.open(
        icechunk.local_filesystem_storage(str(folder / "repo")),
        authorize_virtual_chunk_access={
            f"file://{folder}/": icechunk.credentials.LocalFileSystemAccess
        },
    )
    tip, before = list(repo.ancestry(branch="main"))[:2]
    changed = repo.diff(from_snapshot_id=before.id, to_snapshot_id=tip.id).updated_chunks
    values = zarr.open_array(repo.readonly_session("main").store, path="v")[:]
    return np.asarray(values), sorted(changed["/v"])


def test_the_reference_reads_attached_manifests_and_sees_what_changed(
    repo: frazil.Repository, tmp_path: Path
) -> None:
    session = repo.writable_session("main")
    engine = session.engine
    attached = [written(engine, tmp_path, [0, 1]), written(engine, tmp_path, [3])]
    engine.attach_manifests(PATH, attached)
    assert zarr.open_array(session.store, path="v")[4] == 4  # before the commit
    assert sorted(session.status().updated_chunks["/v"]) == [[0], [1], [3]]
    session.commit("attached")

    values, changed = read_by_the_reference(tmp_path)

    assert values.tolist() == [*range(8), -1, -1, -1, -1, *range(12, 16)]
    assert changed == [[0], [1], [3]]
    assert {file.num_refs for file in repo.readonly_session("main").engine.base.manifest_files} == {
        1,
        2,
    }


def test_manifests_replace_others_and_chunks_written_later_win(
    repo: frazil.Repository, tmp_path: Path
) -> None:
    session = repo.writable_session("main")
    first = written(session.engine, tmp_path, [0])
    session.engine.attach_manifests(PATH, [first])
    session.commit("first")
    session = repo.writable_session("main")
    session.engine.attach_manifests(
        PATH, [written(session.engine, tmp_path, [0, 1])], replaced=[first.file.id]
    )
    array = zarr.open_array(session.store, path="v")
    array[4:12] = 7
    session.commit("second")

    values, changed = read_by_the_reference(tmp_path)

    assert values.tolist() == [*range(4), *[7] * 8, -1, -1, -1, -1]
    assert changed == [[0], [1], [2]]


@pytest.mark.parametrize(
    ("chunks", "problem"),
    [
        ([[1, 2]], "more than one cell"),
        ([[0], [1]], "two manifests for one cell"),
        ([[4]], "out of the grid"),
    ],
)
def test_manifests_that_do_not_fit_are_refused(
    repo: frazil.Repository, tmp_path: Path, chunks: list[list[int]], problem: str
) -> None:
    engine = repo.writable_session("main").engine
    with pytest.raises(InvalidInputError, match=problem):
        engine.attach_manifests(PATH, [written(engine, tmp_path, some) for some in chunks])
    assert not engine.has_uncommitted_changes


def test_a_cell_that_has_a_manifest_gets_no_second_one(
    repo: frazil.Repository, tmp_path: Path
) -> None:
    engine = repo.writable_session("main").engine
    engine.attach_manifests(PATH, [written(engine, tmp_path, [0])])
    with pytest.raises(InvalidInputError, match="two manifests for one cell"):
        engine.attach_manifests(PATH, [written(engine, tmp_path, [1])])
    with pytest.raises(InvalidInputError, match="has no manifest"):
        engine.attach_manifests(PATH, [], replaced=[ManifestId.random()])


def test_attached_manifests_are_rebased_chunk_by_chunk(
    repo: frazil.Repository, tmp_path: Path
) -> None:
    first = repo.writable_session("main")
    zarr.open_array(first.store, path="v")[:] = -7
    first.commit("all")
    old = [file.id for file in repo.readonly_session("main").engine.base.manifest_files]
    session, other = repo.writable_session("main"), repo.writable_session("main")
    merged = written(session.engine, tmp_path, [0, 1])  # without the others that there were
    emptied = EmptiedCell(ChunkSet.of(np.array([[2]], dtype=np.uint32)))
    session.engine.attach_manifests(PATH, [merged, emptied], replaced=old)
    with pytest.raises(SessionStateError, match="cannot fork"):
        session.fork()
    zarr.open_array(other.store, path="v")[12:] = 9
    other.commit("other")
    session.rebase(frazil.ConflictDetector())
    assert sorted(session.status().updated_chunks["/v"]) == [[0], [1], [2]]
    session.commit("rebased")

    values, changed = read_by_the_reference(tmp_path)

    assert values.tolist() == [*range(8), -1, -1, -1, -1, 9, 9, 9, 9]
    assert changed == [[0], [1], [2]]


def test_attached_chunks_that_others_wrote_as_well_are_a_conflict(
    repo: frazil.Repository, tmp_path: Path
) -> None:
    session, other = repo.writable_session("main"), repo.writable_session("main")
    session.engine.attach_manifests(PATH, [written(session.engine, tmp_path, [0])])
    zarr.open_array(other.store, path="v")[:4] = 9
    other.commit("other")
    with pytest.raises(frazil.RebaseFailedError):
        session.rebase(frazil.ConflictDetector())


# ---- the log -------------------------------------------------------------------------------------


@st.composite
def sets_of_chunks(draw: st.DrawFn) -> tuple[list[npt.NDArray[np.uint32]], int]:
    """Disjoint parts of one array's chunks, cut along some axis."""
    ndim = draw(st.integers(0, 3))
    if ndim == 0:
        return [np.zeros((1, 0), dtype=np.uint32)], 0
    rows = draw(st.sets(st.tuples(*[st.integers(0, 20)] * ndim), min_size=1, max_size=60))
    index = np.array(sorted(rows), dtype=np.uint32).reshape(-1, ndim)
    axis, cell = draw(st.integers(0, ndim - 1)), draw(st.integers(1, 21))
    numbers = index[:, axis] // cell
    return [index[numbers == number] for number in np.unique(numbers)], ndim


@settings(max_examples=scaled(60), deadline=None)
@given(drawn=st.lists(sets_of_chunks(), min_size=1, max_size=3), more=st.booleans())
def test_a_log_that_is_streamed_lists_all_chunks_in_order(
    drawn: list[tuple[list[npt.NDArray[np.uint32]], int]], *, more: bool
) -> None:
    other = {NodeId.random(): np.array([[3, 4], [5, 6]], dtype=np.uint32)} if more else {}
    log = TransactionLog(id=SnapshotId.random(), updated_chunks=other)
    streamed = {NodeId.random(): [ChunkSet.of(part) for part in parts] for parts, _ in drawn}

    found = decode_txlog(encode_txlog_stream(log, streamed))

    for (parts, ndim), node in zip(drawn, streamed, strict=True):
        whole = np.concatenate(parts)
        ordered = whole[np.lexsort(whole.T[::-1])] if ndim else whole
        np.testing.assert_array_equal(found.updated_chunks[node], ordered)
    for node, index in other.items():
        np.testing.assert_array_equal(found.updated_chunks[node], index)
    assert found.id == log.id
    assert len(found.updated_chunks) == len(drawn) + more
