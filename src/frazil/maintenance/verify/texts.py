"""Strings, which are UTF-8: readers refuse the others when they come to them."""

from collections.abc import Mapping

from frazil.flatbuf.columns import StringColumn
from frazil.maintenance.verify.problems import Problem, problem

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
