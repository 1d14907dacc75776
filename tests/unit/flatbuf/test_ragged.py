"""Runs gathered in bulk are the runs gathered one by one."""

import numpy as np
import numpy.typing as npt
import pytest

from frazil.flatbuf import ragged

RNG = np.random.default_rng(5)
ONE_D = RNG.integers(0, 255, 5000).astype(np.uint8)
TWO_D = RNG.integers(0, 255, (5000, 3)).astype(np.uint8)


def lengths(*values: int) -> npt.NDArray[np.int64]:
    return np.array(values, np.int64)


CASES = {
    "no runs": (lengths(), lengths()),
    "empty runs": (lengths(5, 9), lengths(0, 0)),
    "one run": (lengths(5), lengths(9)),
    "end to end, even": (np.arange(0, 300, 3), np.full(100, 3)),
    "end to end, uneven": (lengths(10, 13, 13, 20), lengths(3, 0, 7, 1)),
    "even steps": (np.arange(0, 1000, 10), np.full(100, 3)),
    "even steps backwards": (np.arange(990, -1, -10), np.full(100, 3)),
    "one run many times": (np.full(9, 7), np.full(9, 5)),
    "short runs anywhere": (RNG.integers(0, 4900, 100), np.full(100, 4)),
    "long runs anywhere": (RNG.integers(0, 4900, 100), np.full(100, 90)),
    "ascending with gaps": (lengths(10, 20, 40), lengths(10, 5, 7)),
    "ascending, far apart": (lengths(10, 2000, 4900), lengths(2, 3, 4)),
    "anything": (RNG.integers(0, 4900, 100), RNG.integers(0, 90, 100)),
    "backwards": (lengths(40, 20, 10), lengths(7, 5, 10)),
}


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("source", [ONE_D, TWO_D], ids=["1-d", "2-d"])
@pytest.mark.parametrize("piece", [16, 1 << 20])
def test_runs_are_gathered(
    case: str, source: npt.NDArray[np.uint8], piece: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ragged, "PIECE", piece)
    start, length = CASES[case]
    runs = [source[at : at + size] for at, size in zip(start, length, strict=True)]
    expected = np.concatenate([source[:0], *runs])
    assert np.array_equal(ragged.gather(source, start, length), expected)
    assert np.array_equal(source[ragged.run_index(start, length)], expected)


@pytest.mark.parametrize(
    ("positions", "count"),
    [
        (lengths(), 0),
        (lengths(8), 1),
        (lengths(4, 8, 400), 3),
        (lengths(400, 8, 4), 3),
        (lengths(8, 4, 8, 8, 16, 4), 3),
        (lengths(8, 8, 8), 1),
        (lengths(2**30, 8, 2**30), 2),  # too far apart for a table
    ],
)
def test_distinct_positions_are_numbered(positions: npt.NDArray[np.int64], count: int) -> None:
    codes, found = ragged.factorize(positions, 4)
    assert len(found) == count
    assert np.array_equal(found[codes], positions)


@pytest.mark.parametrize(
    ("splits", "length"),
    [([0], 0), ([0, 4], 4), ([0, 2, 4, 6], 2), ([0, 2, 3, 6], None), ([0, 1, 4, 6], None)],
)
def test_even_lengths_are_noticed(splits: list[int], length: int | None) -> None:
    assert ragged.even_length(np.array(splits)) == length


@pytest.mark.parametrize(
    ("positions", "step"),
    [([], 0), ([4], 0), ([4, 9], 5), ([9, 4, -1], -5), ([0, 5, 9, 15], None), ([0, 5, 11], None)],
)
def test_even_steps_are_noticed(positions: list[int], step: int | None) -> None:
    assert ragged.even_step(np.array(positions, np.int64)) == step
