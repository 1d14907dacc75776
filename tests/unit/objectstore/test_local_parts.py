"""Parts of many files, read at once."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from frazil.errors import ObjectNotFoundError, StorageError
from frazil.objectstore.local import LocalStore
from frazil.objectstore.local.local_files import create_file, fill_file
from frazil.objectstore.reads import Parts, thread_shares
from tests.examples_count import scaled

SIZES = (1, 90_000, 5000)
CONTENT = {f"N{at}": np.random.default_rng(at).bytes(size) for at, size in enumerate(SIZES)}


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> LocalStore:
    made = LocalStore(tmp_path_factory.mktemp("parts"), fsync=False)
    for name, content in CONTENT.items():
        made.put(f"chunks/{name}", content)
    return made


@st.composite
def wanted(draw: st.DrawFn) -> Parts:
    names, edges = [], [0]
    start, length, into = list[int](), list[int](), list[memoryview | None]()
    for name in draw(st.lists(st.sampled_from(sorted(CONTENT)), min_size=1, max_size=4)):
        size = len(CONTENT[name])
        at = draw(st.lists(st.integers(0, size + 5), min_size=1, max_size=6).map(sorted))
        for begin in at:
            near = draw(st.sampled_from([0, 1, 7, 600, 20_000]))
            adjacent = bool(start) and len(start) > edges[-1] and draw(st.booleans())
            start.append(start[-1] + length[-1] if adjacent else begin)
            length.append(near)
            into.append(memoryview(bytearray(near)) if draw(st.booleans()) else None)
        order = sorted(range(edges[-1], len(start)), key=lambda row: start[row])
        start[edges[-1] :] = [start[row] for row in order]
        length[edges[-1] :] = [length[row] for row in order]
        into[edges[-1] :] = [into[row] for row in order]
        names.append(name)
        edges.append(len(start))
    return Parts("chunks/", names, edges, start, length, into)


@settings(max_examples=scaled(150), deadline=None)
@given(parts=wanted(), width=st.integers(1, 4))
def test_parts_are_what_the_files_hold(store: LocalStore, parts: Parts, width: int) -> None:
    found = [
        part
        for share in thread_shares(parts, width)
        for part in store.read_parts(parts.some(*share))
    ]
    for number, name in enumerate(parts.names):
        rows = range(parts.edges[number], parts.edges[number + 1])
        is_cut = any(parts.start[row] + parts.length[row] > len(CONTENT[name]) for row in rows)
        for row in rows:
            start = parts.start[row]
            assert bytes(found[row]) == CONTENT[name][start : start + parts.length[row]]
            if parts.into[row] is not None and not is_cut:
                assert found[row] is parts.into[row]


def test_what_is_missing_is_named(store: LocalStore) -> None:
    assert store.capabilities.reads_parts
    parts = Parts("chunks/", ["N1", "NONE"], [0, 1, 2], [0, 0], [4, 4], [None, None])
    with pytest.raises(ObjectNotFoundError) as caught:
        store.read_parts(parts)
    assert caught.value.key == "chunks/NONE"
    elsewhere = Parts("nothing/", ["N1"], [0, 1], [0], [4], [None])
    with pytest.raises(ObjectNotFoundError):
        store.read_parts(elsewhere)


def test_links_are_not_followed(tmp_path: Path) -> None:
    store = LocalStore(tmp_path / "store", fsync=False)
    store.put("chunks/A", b"abc")
    (tmp_path / "store/chunks/B").symlink_to(tmp_path / "store/chunks/A")
    with pytest.raises(StorageError, match="symbolic link"):
        store.read_parts(Parts("chunks/", ["B"], [0, 1], [0], [3], [None]))
    (tmp_path / "store/other").symlink_to(tmp_path / "store/chunks")
    with pytest.raises(StorageError, match="symbolic link"):
        LocalStore(tmp_path / "store").read_parts(Parts("other/", ["A"], [0, 1], [0], [3], [None]))


def test_no_file_stays_open(store: LocalStore) -> None:
    before = len(list(Path("/proc/self/fd").iterdir()))
    parts = Parts("chunks/", ["N1", "NONE"], [0, 1, 2], [0, 0], [4, 4], [None, None])
    for _ in range(3):
        with pytest.raises(ObjectNotFoundError):
            store.read_parts(parts)
    assert len(list(Path("/proc/self/fd").iterdir())) == before


@given(sizes=st.lists(st.sampled_from([0, 1, 700, 400_000, 1 << 20, 3 << 20]), max_size=8))
@settings(max_examples=scaled(30), deadline=None)
def test_pieces_are_written_end_to_end(
    tmp_path_factory: pytest.TempPathFactory, sizes: list[int]
) -> None:
    path = tmp_path_factory.mktemp("pieces") / "file"
    pieces = [np.random.default_rng(n).bytes(size) for n, size in enumerate(sizes)]
    fill_file(create_file(str(path)), str(path), pieces, fsync=False)
    assert path.read_bytes() == b"".join(pieces)


def test_more_pieces_than_the_kernel_takes_at_once(store: LocalStore) -> None:
    pieces = [number.to_bytes(2) for number in range(5000)]
    store.put_pieces("chunks/MANY", pieces)
    assert store.get("chunks/MANY").data == b"".join(pieces)
    targets = [memoryview(bytearray(2)) for _ in pieces]
    many = len(pieces)
    parts = Parts("chunks/", ["MANY"], [0, many], list(range(0, 2 * many, 2)), [2] * many, targets)
    assert [bytes(each) for each in store.read_parts(parts)] == pieces
