"""Checks of order and of texts, column by column."""

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from frazil.flatbuf.columns import StringColumn
from frazil.maintenance.verify.problems import Problem, problem

type Ids = npt.NDArray[np.uint8]  # (n, size)


def id_keys(ids: Ids) -> npt.NDArray[Any]:
    """(n,) keys that are in the order of the bytes of the ids."""
    size = ids.shape[1]
    rows = np.ascontiguousarray(ids)
    if size == 8:
        return rows.view(">u8").reshape(-1).astype(np.uint64)
    return rows.view(f"S{size}").reshape(-1)  # equal width: zeros at the end do not matter


def descents(keys: npt.NDArray[Any]) -> npt.NDArray[np.int64]:
    """Rows that come before, by order, the row in front of them."""
    return np.flatnonzero(keys[1:] < keys[:-1]) + 1


def repeats(keys: npt.NDArray[Any]) -> npt.NDArray[np.int64]:
    """Rows with a key that an earlier row has; keys need not be in order."""
    if bool((keys[1:] > keys[:-1]).all()):
        return np.zeros(0, dtype=np.int64)
    order = np.argsort(keys, kind="stable")
    ordered = keys[order]
    again: npt.NDArray[np.int64] = order[1:][ordered[1:] == ordered[:-1]]
    return np.sort(again)


def first_descent[K: (bytes, int)](items: Sequence[K]) -> int | None:
    """The same of a list: the first such row."""
    return next((row for row, (a, b) in enumerate(pairwise(items), 1) if b < a), None)


def first_repeat(items: Sequence[object]) -> int | None:
    if len(set(items)) == len(items):
        return None
    seen = set[object]()
    for row, item in enumerate(items):
        if item in seen:
            return row
        seen.add(item)
    return None


_FIRST_BEYOND_ASCII = 128
_FEW = 64  # rows: faster to check one by one


def check_texts(file: str, columns: Mapping[str, StringColumn]) -> list[Problem]:
    """One problem for each of the named columns that has a text which is none."""
    problems = []
    for name, column in columns.items():
        wrong = _first_wrong(column)
        if wrong is not None:
            problems.append(problem("text-invalid", file, f"`{name}` is {wrong[:80]!r}"))
    return problems


def _first_wrong(column: StringColumn) -> bytes | None:
    if len(column) <= _FEW:
        few = column.to_list()
        return next((item for item in few if item and not _is_text(item)), None)
    used = column.pruned().strings.compact()
    if not len(used) or int(used.heap.max(initial=0)) < _FIRST_BEYOND_ASCII:
        return None
    return next((item for item in used.to_list() if not _is_text(item)), None)


def _is_text(item: bytes) -> bool:
    if item.isascii():
        return True
    try:
        item.decode()
    except UnicodeDecodeError:
        return False
    return True
