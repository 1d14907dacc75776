"""Locations of virtual chunks, a million at a time: the table of distinct ones, not the rows.

What the rules for one location say (urls.py) is found out for whole groups that begin alike; only
locations that are not written as they would be stored are looked at one by one.
"""

import re

import numpy as np

from frazil.flatbuf.columns import StringColumn
from frazil.flatbuf.strings import Strings
from frazil.format.prefixes import Bools, contain, contain_any_of, starts_with, with_changed
from frazil.format.urls import decoded, regular

_HEAD = re.compile(rb"(?!file:)[a-z][a-z0-9+.-]*://[^/?#]+/")
_FILE = b"file:///"
_MOST_HEADS = 64  # stores in one table; what is in others is looked at one by one

# Bytes that make a file's location one to look at: it might be stored otherwise.
_UNUSUAL = np.ones(256, np.bool_)
_UNUSUAL[33:127] = False
_UNUSUAL[np.frombuffer(b"\"'#<>?\\`{}", np.uint8)] = True
_DOTS = (b"/.", b"%2")  # perhaps `.` or `..`


def regular_column(locations: StringColumn) -> StringColumn:
    """As `regular`, for a column; raises the error of the first location that has one."""
    return StringColumn(locations.codes, regular_table(locations.strings))


def regular_table(texts: Strings) -> Strings:
    return with_changed(texts, ~_is_regular(texts), lambda item: regular(item.decode()).encode())


def _is_regular(texts: Strings) -> Bools:
    known = np.zeros(len(texts), np.bool_)
    rows = np.arange(len(texts))
    for _ in range(_MOST_HEADS):
        if not len(rows):
            break
        hit = _alike(texts.take(rows))
        known[rows] = hit if hit[0] else False
        rows = rows[~hit] if hit[0] else rows[1:]
    files = np.flatnonzero(starts_with(texts, _FILE))
    if len(files):
        paths = texts.take(files)
        known[files] = ~(contain_any_of(paths, _UNUSUAL) | contain(paths, _DOTS))
    return known


def _alike(texts: Strings) -> Bools:
    """Which strings are in the store of the first one; if it is not regular, not even that one."""
    first = texts.item(0)
    head = _HEAD.match(first)
    if head is not None:
        return starts_with(texts, head[0])
    return starts_with(texts, _FILE) & first.startswith(_FILE)


def decoded_table(texts: Strings) -> Strings:
    """As `decoded`, for a table."""
    return with_changed(
        texts,
        contain(texts, [b"%"]),
        lambda item: decoded(item.decode()).encode(errors="surrogateescape"),
    )
