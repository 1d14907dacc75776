"""Texts that become columns: what is stored once, and what is not worth looking for."""

from collections.abc import Callable

import numpy as np
import pytest

from frazil.flatbuf.columns import text_column

COUNT = 200_000


@pytest.mark.parametrize(
    "file_of",
    [
        lambda i: i // 100,
        lambda i: i // 2,
        lambda i: i % 1000,
        lambda i: i % (COUNT // 10),
        lambda i: i * 7919 % COUNT // 10,
    ],
    ids=["runs", "pairs", "turns", "long turns", "shuffled"],
)
def test_texts_that_repeat_are_stored_once(file_of: Callable[[int], int]) -> None:
    texts = [f"s3://bucket/{file_of(i)}.nc" for i in range(COUNT)]
    column = text_column(texts)
    assert len(column.strings) == len(set(texts))
    assert column.to_texts() == texts


def test_a_repeat_among_many_distinct_texts_may_be_stored_again() -> None:
    texts = [f"s3://bucket/{i}.nc" for i in range(COUNT)]
    texts[-1] = texts[0]
    column = text_column(texts)
    assert column.to_texts() == texts
    assert np.array_equal(column.codes, text_column(list(texts)).codes)
