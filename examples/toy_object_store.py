"""An object store of one's own, in one file: objects in an SQLite database.

    python -m frazil.testing --store toy_object_store:new_store       # does it keep the contract?
    frazil log toy:///data/repository.sqlite                          # with the entry point, below

Five methods make a store; ObjectStore has correct defaults for all others. The last line is the
registration of toy:// in this process. A package that shall be found by every process, Spark's
workers included, writes into its pyproject.toml instead:

    [project.entry-points."frazil.object_stores"]
    toy = "toy_object_store:open_toy"
"""

import secrets
import sqlite3
import tempfile
import time
from collections.abc import Buffer, Iterable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from frazil.errors import ObjectNotFoundError, PreconditionFailedError
from frazil.objectstore import ALWAYS, Absent, Blob, Matches, ObjectInfo, ObjectStore, Precondition
from frazil.objectstore.keys import require_key, require_prefix
from frazil.objectstore.registry import register
from frazil.ranges import ByteRange, resolve

type Rows = list[tuple[Any, ...]]  # `list` is a method below, and would hide the type

TABLE = """CREATE TABLE IF NOT EXISTS objects
           (key BLOB PRIMARY KEY, data BLOB, version TEXT, modified_at_us INTEGER)"""
INSERT = "INSERT INTO objects VALUES (:key, :data, :version, :now)"
UPDATE = "UPDATE objects SET data = :data, version = :version, modified_at_us = :now"


class ToyStore(ObjectStore):
    """Objects as rows. Transactions of SQLite decide which of several writers wins."""

    def __init__(self, path: str | Path) -> None:
        self.path = str(path)  # all that a pickle needs; threads and processes connect themselves
        self._execute(TABLE)

    def get(self, key: str, byte_range: ByteRange | None = None) -> Blob:
        data, version, _ = self._find(key)
        if byte_range is None:
            return Blob(data, version)
        part = resolve(byte_range, len(data))
        return Blob(data[part.start : part.stop], "")

    def head(self, key: str) -> ObjectInfo:
        data, _, modified_at_us = self._find(key)
        return ObjectInfo(key, len(data), modified_at_us)

    def list(self, prefix: str = "") -> Iterator[ObjectInfo]:
        require_prefix(prefix)
        query = "SELECT key, length(data), modified_at_us FROM objects WHERE substr(key, 1, ?) = ?"
        start = prefix.encode()
        rows, _ = self._execute(query, (len(start), start))
        return (ObjectInfo(key.decode(), size_bytes, at_us) for key, size_bytes, at_us in rows)

    def put(self, key: str, data: Buffer, *, when: Precondition = ALWAYS) -> str:
        require_key(key)
        row = {
            "key": key.encode(),
            "data": memoryview(data).tobytes(),
            "version": secrets.token_hex(8),
            "now": time.time_ns() // 1000,
        }
        match when:
            case Absent():
                _, count = self._execute(f"{INSERT} ON CONFLICT DO NOTHING", row)
            case Matches(version):
                query = f"{UPDATE} WHERE key = :key AND version = :old"
                _, count = self._execute(query, row | {"old": version})
            case _:
                update = UPDATE.replace("UPDATE objects", "UPDATE")
                _, count = self._execute(f"{INSERT} ON CONFLICT DO {update}", row)
        if not count:
            raise PreconditionFailedError(key, str(when))
        return str(row["version"])

    def delete(self, keys: Iterable[str]) -> int:
        removed = 0
        for key in keys:
            require_key(key)
            removed += self._execute("DELETE FROM objects WHERE key = ?", (key.encode(),))[1]
        return removed

    def _find(self, key: str) -> tuple[bytes, str, int]:
        require_key(key)
        query = "SELECT data, version, modified_at_us FROM objects WHERE key = ?"
        rows, _ = self._execute(query, (key.encode(),))
        if not rows:
            raise ObjectNotFoundError(key)
        data, version, modified_at_us = rows[0]
        return data, version, modified_at_us

    def _execute(self, query: str, values: Any = ()) -> tuple[Rows, int]:
        """The rows of a query, and how many were changed."""
        with closing(sqlite3.connect(self.path, timeout=60)) as database, database:
            cursor = database.execute(query, values)
            return cursor.fetchall(), max(cursor.rowcount, 0)

    def __repr__(self) -> str:
        return f"ToyStore({self.path!r})"


def open_toy(url: str) -> ToyStore:
    """The store at toy:///path/of/the/database."""
    return ToyStore(unquote(urlsplit(url).path))


def new_store() -> ToyStore:
    """A new, empty store, for `python -m frazil.testing`."""
    return ToyStore(Path(tempfile.mkdtemp()) / "objects.sqlite")


register("toy", opener=open_toy)
