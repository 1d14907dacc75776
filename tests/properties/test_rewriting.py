"""Storing what there is in another way changes nothing of what there is."""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given, settings

import frazil
from frazil.engine.commit.splitting import split
from frazil.engine.files.object_keys import chunk_key
from frazil.engine.repository import Repository
from frazil.engine.session.session import Session
from frazil.format.chunk_refs import ChunkRefs, Native
from frazil.format.nodes import ArrayData, ManifestRef, Node
from frazil.ids import ChunkId, ManifestId, NodeId
from frazil.maintenance import relocate, rewrite_manifests
from frazil.maintenance import rewrite_manifests as manifest_cells
from frazil.maintenance.executor import waves
from frazil.maintenance.pack import pack, plan_pack, plan_unpack, unpack
from frazil.maintenance.rewrite_manifests import plan_rewrite_manifests
from frazil.objectstore.memory import MemoryStore
from frazil.paths import NodePath
from tests.examples_count import scaled
from tests.unit.maintenance.contents import contents_of, history_of
from tests.unit.spec.written import GROUP, array_metadata, split_every

ARRAYS = tuple(map(NodePath, ("/a", "/b/c", "/b/d", "/scalar")))
SHAPES = {"/a": (6, 5), "/b/c": (9,), "/b/d": (2, 3, 2), "/scalar": ()}

type Write = tuple[NodePath, tuple[int, ...], int]

# One commit: chunks of arrays and how many bytes they get, 0 to delete them, -1 to make them
# virtual, -2 to let them share the object that was written last, -3 and less to put two chunks of
# so many bytes into one object. Up to 16 bytes are inline.
writes = st.lists(
    st.tuples(
        st.sampled_from(ARRAYS),
        st.tuples(*[st.integers(0, 8)] * 3),
        st.sampled_from([-90, -30, -9, -2, -1, 0, 5, 17, 20, 40, 100]),
    ),
    max_size=12,
)
histories = st.lists(st.tuples(st.integers(1, 6), writes), min_size=1, max_size=4)
actions = st.lists(
    st.one_of(
        st.tuples(st.just("rewrite"), st.integers(1, 7), st.integers(1, 30)),
        st.tuples(st.just("pack"), st.sampled_from([20, 40, 200]), st.integers(2, 6)),
        st.tuples(st.just("unpack"), st.just(0), st.just(0)),
    ),
    min_size=1,
    max_size=5,
)


def write(repository: Repository, number: int, changes: list[Write]) -> None:
    session = repository.writable_session("main")
    if number == 0:
        for group in ("/", "/b"):
            session.set_node(NodePath(group), GROUP)
        for text, shape in SHAPES.items():
            session.set_node(NodePath(text), array_metadata(shape, (1,) * len(shape)))
    last: tuple[NodePath, tuple[int, ...]] | None = None
    for serial, (path, place, size) in enumerate(changes):
        shape = SHAPES[path.text]
        index = tuple(at % count for at, count in zip(place, shape, strict=False))
        if size > 0:
            session.set_chunk(path, index, bytes([number, serial]) * size)
            last = path, index
        elif size == 0:
            session.delete_chunk(path, index)
        elif size <= -3:
            set_together(session, path, index, -size)
        else:
            rows = np.array([index], dtype=np.uint32).reshape(1, len(shape))
            refs = ChunkRefs.virtual(rows, [f"s3://bucket/{serial}"], serial, 10)
            if size == -2 and last is not None and (found := session.chunk_payload(*last)):
                refs = ChunkRefs.from_payloads(rows, [found])
            session.set_chunk_refs(path, refs)
    session.commit(f"commit {number}", allow_empty=True)


def set_together(session: Session, path: NodePath, index: tuple[int, ...], size: int) -> None:
    """This chunk, and the first one of the array, in one object."""
    name = ChunkId.random()
    session.files.store.put(chunk_key(name), bytes(range(2 * size)))
    both = list(dict.fromkeys([index, (0,) * len(index)]))
    places = [Native(name, at * size, size) for at in range(len(both))]
    rows = np.array(both, dtype=np.uint32).reshape(len(both), len(index))
    session.set_chunk_refs(path, ChunkRefs.from_payloads(rows, places))


def act(repository: Repository, action: tuple[str, int, int]) -> None:
    match action:
        case "rewrite", split, most:
            again = repository.reopened(split_every(split))
            with limited(most):
                found = plan_rewrite_manifests(again, "main")
                rewrite_manifests.rewrite_manifests(again, found, "rewritten")
        case "pack", small, times:
            with limited(7):
                plan = partial(
                    plan_pack, repository, "main", small_bytes=small, pack_bytes=small * times
                )
                pack(repository, plan())
                assert plan().packs == 0
        case _:
            unpack(repository, plan_unpack(repository, "main"))
            assert plan_unpack(repository, "main").packs == 0


@contextmanager
def limited(most: int) -> Iterator[None]:
    """Work in pieces of at most so many references."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(rewrite_manifests, "REFS_AT_ONCE", most)
        patch.setattr(relocate, "REFS_AT_ONCE", most)
        yield


@settings(max_examples=scaled(30))
@given(histories, actions, st.sampled_from([1, 2]))
def test_packing_unpacking_and_rewriting_change_no_content(
    history: list[tuple[int, list[Write]]],
    actions: list[tuple[str, int, int]],
    version: int,
) -> None:
    repository = Repository.create(MemoryStore(), split_every(2), spec_version=version)
    for number, (cell, changes) in enumerate(history):
        write(repository.reopened(split_every(cell)), number, changes)
    before, tip = history_of(repository), contents_of(repository)
    for action in actions:
        act(repository, action)
        assert contents_of(repository) == tip
    after = history_of(repository)
    assert {snapshot: after[snapshot] for snapshot in before} == before
    problems = frazil.Repository.open(frazil.Storage(repository.store)).verify().problems
    assert {each.kind for each in problems} <= {"virtual-uncovered"}


def native(chunks: list[tuple[int, ...]], ndim: int) -> ChunkRefs:
    index = np.array(chunks, dtype=np.uint32).reshape(len(chunks), ndim)
    return ChunkRefs.native(index, np.zeros((len(chunks), 12), dtype=np.uint8), 0, 1)


def split_node(
    refs: ChunkRefs, grid: tuple[int, ...], cell: tuple[int, ...]
) -> tuple[Node, dict[ManifestId, ChunkRefs]]:
    """An array whose manifests are split by `cell`, and what is in each."""
    parts = {ManifestId.random(): part for part in split(refs, cell)}
    listed = tuple(ManifestRef(each, part.bounding_box()) for each, part in parts.items())
    array = ArrayData(shape=grid, num_chunks=grid, manifests=listed)
    return Node(NodeId.random(), NodePath("/a"), b"", array), parts


@given(st.data())
def test_jobs_hold_every_reference_of_their_cells_once(data: st.DataObject) -> None:
    grid = tuple(data.draw(st.lists(st.integers(1, 9), max_size=3)))
    chunks = [tuple(each) for each in np.ndindex(*grid) if data.draw(st.booleans())]
    refs = native(chunks, len(grid))
    old = data.draw(st.tuples(*(st.integers(1, 9) for _ in grid)))
    cell = data.draw(st.tuples(*(st.integers(1, 9) for _ in grid)))
    most = data.draw(st.integers(1, 40))

    node, parts = split_node(refs, grid, old)
    assert node.array is not None
    num_refs = {ref.id: len(parts[ref.id]) for ref in node.array.manifests}
    jobs = manifest_cells.plan_jobs(node, node.array, cell=cell, num_refs=num_refs, most=most)

    written = [part for job in jobs for part in job.parts([parts[each] for each in job.manifests])]
    found = [tuple(row) for part in written for row in part.index.tolist()]
    cells = [tuple(at // size for at, size in zip(row, cell, strict=True)) for row in found]
    assert sorted(found) == sorted(chunks)
    assert cells == sorted(cells)
    assert len(written) == len(set(cells))
    done = list[manifest_cells.RewriteJob]()
    for rows in waves([job.refs for job in jobs], most):
        wave = jobs[rows]
        assert len(wave) == 1 or sum(job.refs for job in wave) <= most
        done += wave
    assert done == jobs
