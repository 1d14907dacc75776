"""Inventories in files: a listing of a bucket as CSV or Parquet, made by another tool.

Columns are found by name: `key`; `size` or `size_bytes`; `last_modified`, `last_modified_date`,
`created_at` or `modified_at`, as times, ISO text, or microseconds since 1970. S3 Inventory, whose
CSV has no header, is read if the columns are named by the caller.
"""

import csv
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from frazil.clock import from_datetime
from frazil.errors import InvalidInputError
from frazil.maintenance.inventory import (
    CONCURRENT_LISTINGS,
    PIECE,
    FileKind,
    Inventory,
    Listing,
    StoredInventory,
    kind_of,
    listed,
)
from frazil.objectstore.protocol import ObjectInfo
from frazil.repo.repository import Repository

type GivenInventory = str | Path | Iterable[str | Path] | Inventory

_NAMES = {
    "key": ("key", "object_key", "name", "path"),
    "size": ("size", "size_bytes", "bytes"),
    "time": ("last_modified", "last_modified_date", "created_at", "modified_at", "time_created"),
}


@dataclass(frozen=True, slots=True)
class FileInventory:
    """Objects listed in files. Keys begin with `prefix`, which is where the repository is.

    Objects that were deleted since may be listed, and new ones may be missing: neither does harm.
    """

    paths: tuple[str, ...]
    prefix: str = ""
    columns: tuple[str, ...] | None = None  # of CSV files without a header

    @classmethod
    def of(
        cls,
        paths: str | Path | Iterable[str | Path],
        *,
        prefix: str = "",
        columns: Sequence[str] | None = None,
    ) -> "FileInventory":
        """Files, or directories of them. Raises InvalidInputError if nothing of use is listed."""
        given = [paths] if isinstance(paths, str | Path) else list(paths)
        found = tuple(str(each) for path in given for each in _files_in(Path(path)))
        start = prefix.strip("/") + "/" if prefix.strip("/") else ""
        made = cls(found, start, None if columns is None else tuple(columns))
        if not any(kind_of(info.key) for info in made._objects()):
            raise InvalidInputError(
                f"no file of a repository is listed in {', '.join(found) or 'no file at all'}"
                f" below {start!r}: give the prefix under which the repository is, as listed"
            )
        return made

    def pieces(self, kind: FileKind) -> Iterator[Listing]:
        return listed((info for info in self._objects() if info.key.startswith(kind.value)), kind)

    def others(self, prefix: str) -> Iterator[ObjectInfo]:
        found = (info for info in self._objects() if info.key.startswith(prefix))
        return (info for info in found if kind_of(info.key) is None)

    def _objects(self) -> Iterator[ObjectInfo]:
        for path in self.paths:
            rows = _parquet(path) if path.endswith(".parquet") else _csv(path, self.columns)
            for key, size, time in rows:
                if key.startswith(self.prefix):
                    yield ObjectInfo(key[len(self.prefix) :], _size(size), _time_us(time))


def inventory_of(
    repository: Repository,
    given: GivenInventory | None,
    *,
    concurrent_listings: int = CONCURRENT_LISTINGS,
) -> Inventory:
    """The storage itself, unless the caller gives a listing."""
    if given is None:
        return StoredInventory(repository.store, concurrent_listings)
    if isinstance(given, str | Path):
        return FileInventory.of(given)
    return FileInventory.of(given) if isinstance(given, Iterable) else given


def _files_in(path: Path) -> list[Path]:
    if not path.is_dir():
        return [path]
    return sorted(each for each in path.rglob("*") if each.suffix in {".csv", ".parquet"})


def _csv(path: str, columns: Sequence[str] | None) -> Iterator[tuple[str, Any, Any]]:
    with _naming(path), Path(path).open(newline="", encoding="utf-8") as file:
        rows = csv.reader(file)
        header = next(rows, []) if columns is None else columns
        key, size, time = _places(path, header)
        yield from ((row[key], row[size], row[time]) for row in rows if row)


@contextmanager
def _naming(path: str) -> Iterator[None]:
    """Raises errors in the bytes of a listing as errors that name the file."""
    try:
        yield
    except (UnicodeDecodeError, csv.Error, IndexError) as error:
        raise InvalidInputError(f"{path} is not such a listing: {error}") from error


def _parquet(path: str) -> Iterator[tuple[str, Any, Any]]:
    try:
        from pyarrow import parquet  # noqa: PLC0415 - heavy, and only needed here
    except ImportError as error:
        raise InvalidInputError(
            f"{path}: listings in Parquet are read by pyarrow, which is not installed"
            " (pip install pyarrow)"
        ) from error
    file = parquet.ParquetFile(path)
    names = file.schema_arrow.names
    places = _places(path, names)
    for batch in file.iter_batches(batch_size=PIECE, columns=[names[at] for at in places]):
        wanted = [batch.column(names[at]).to_pylist() for at in places]
        yield from zip(*wanted, strict=True)


def _places(path: str, header: Sequence[str]) -> tuple[int, int, int]:
    """Columns of the key, the size and the time."""
    at: Mapping[str, int] = {name.strip().lower(): place for place, name in enumerate(header)}
    found = {
        what: next((at[name] for name in names if name in at), None)
        for what, names in _NAMES.items()
    }
    missing = [what for what, place in found.items() if place is None]
    if missing:
        raise InvalidInputError(
            f"{path}: no column for {' and '.join(missing)} among {', '.join(header)};"
            " name the columns if the file has no header"
        )
    return found["key"] or 0, found["size"] or 0, found["time"] or 0


def _size(value: Any) -> int:
    try:
        size = int(value or 0)
    except (ValueError, TypeError):
        size = -1
    if not 0 <= size < 2**63:
        raise InvalidInputError(f"not a size in an inventory: {str(value)[:40]!r}")
    return size


def _time_us(value: Any) -> int:
    if isinstance(value, datetime):
        return from_datetime(value if value.tzinfo else value.replace(tzinfo=UTC))
    text = str(value).strip()
    if text.isdecimal() and len(text) < 19:
        return int(text)
    try:
        when = datetime.fromisoformat(text)
    except ValueError:
        raise InvalidInputError(f"not a time in an inventory: {text[:40]!r}") from None
    return from_datetime(when if when.tzinfo else when.replace(tzinfo=UTC))
