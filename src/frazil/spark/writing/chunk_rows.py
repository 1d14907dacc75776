"""`df.write.format("icechunk").option("input", "chunks")`: a row per chunk, as mode `chunks` reads.

    array    string          name in the group, or path
    chunk    array<bigint>   index in the grid of the array
    offset   array<bigint>   of the chunk's first element       checked, if there; may be left out
    shape    array<bigint>   of the chunk, cut off at the end   checked, if there; may be left out
    dtype    string          of `data`                          checked, if there; may be left out
    data     binary          row-major, little-endian; with the option `encode` false, as stored;
                             NULL: the chunk goes, and reads as the fill value

Executors encode and store chunks; the driver gets their references. Chunks that no row names stay
as they are. Arrays that are not there are made as the option `arrays` says.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, override

import numpy as np
import pyarrow as pa
from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from frazil.engine.commit.chunk_writer import ChunkWriter
from frazil.engine.refs.version import Branch
from frazil.engine.session.session import Session
from frazil.errors import AlreadyExistsError, InvalidInputError, NodeNotFoundError
from frazil.format.chunk_refs import ChunkRefs
from frazil.paths import NodePath
from frazil.spark.runtime.commits import find_commit, session_at
from frazil.spark.runtime.jobs import store_region
from frazil.spark.runtime.workers import carrying_errors, limit_gc
from frazil.spark.table.opened import Opened
from frazil.spark.writing.commit import APPLICATION, Commit
from frazil.spark.writing.options import WriteMode, WriteOptions, open_repository
from frazil.spark.writing.session import StoredChunks, make_group, merge_chunks
from frazil.zarrstore.array_codecs import array_document

COLUMNS = {
    "array": "string",
    "chunk": "array<bigint>",
    "offset": "array<bigint>",
    "shape": "array<bigint>",
    "dtype": "string",
    "data": "binary",
}
_OPTIONAL = ("offset", "shape", "dtype")
_ARRAY_KEYS = {
    "shape", "chunks", "dtype", "dims", "fill_value", "attrs", "codecs",
}  # fmt: skip


@dataclass(frozen=True, slots=True, eq=False)
class ChunkTarget:
    """An array that chunk rows may be for."""

    path: NodePath
    document: bytes
    shape: tuple[int, ...]
    chunks: tuple[int, ...]
    dtype: np.dtype[Any]
    is_new: bool

    def region(self, index: Sequence[int]) -> tuple[slice, ...]:
        """Raises InvalidInputError for a chunk outside the grid."""
        inside = len(index) == len(self.shape) and all(
            0 <= k < -(-size // step)
            for k, size, step in zip(index, self.shape, self.chunks, strict=True)
        )
        if not inside:
            raise InvalidInputError(
                f"chunk {list(index)} is outside the grid of {self.path.name!r}, which has the"
                f" shape {list(self.shape)} in chunks of {list(self.chunks)}"
            )
        return tuple(
            slice(k * step, min((k + 1) * step, size))
            for k, size, step in zip(index, self.shape, self.chunks, strict=True)
        )


@dataclass
class ChunksMessage(WriterCommitMessage):
    stored: tuple[StoredChunks, ...]


class ChunkRowsWriter(DataSourceArrowWriter):
    def __init__(self, options: WriteOptions, schema: StructType) -> None:
        self.options = options
        with carrying_errors():
            _require_columns(schema)
            repository = open_repository(options)
            session = repository.readonly_session(Branch(options.branch))
            self.base = str(session.snapshot_id)
            self.done = find_commit(repository, options.branch, options.key)
            self.targets = plan_chunk_targets(session, options)

    @override
    def write(self, iterator: Iterator[pa.RecordBatch]) -> ChunksMessage:
        limit_gc()
        with carrying_errors():
            if self.done is not None:
                return ChunksMessage(())
            base = open_repository(self.options).readonly_session(Branch(self.options.branch))
            writer = base.chunk_writer()
            rows = (row for batch in iterator for row in batch.to_pylist())
            stored = tuple(store_row(self.targets, self.options, writer, row) for row in rows)
            writer.sync()
            return ChunksMessage(stored)

    @override
    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        stored = [one for m in messages if isinstance(m, ChunksMessage) for one in m.stored]
        if self.done is not None or not stored:
            return
        with carrying_errors():
            repository = open_repository(self.options)
            session = session_at(repository, self.options.branch, self.base)
            make_group(session, NodePath(self.options.group), self.options.group_attrs)
            for target in self.targets:
                if target.is_new:
                    session.delete_node(target.path)
                    session.set_node(target.path, target.document)
            written = merge_chunks(session, [target.path for target in self.targets], stored)
            Commit(self.options, APPLICATION, self.options.key, {"input": "chunks"}).make(
                repository, session, written
            )

    @override
    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        """Chunks stay: a commit that raised may have been made all the same."""


def plan_chunk_targets(session: Session, options: WriteOptions) -> tuple[ChunkTarget, ...]:
    """Arrays that are in the group, and those to be made."""
    group = NodePath(options.group)
    try:
        there = Opened(session).describe(options.group).arrays
    except NodeNotFoundError:
        there = {}
    taken = sorted(there.keys() & options.arrays.keys())
    if taken and options.mode is not WriteMode.OVERWRITE:
        raise AlreadyExistsError(
            f"option 'arrays' makes {', '.join(map(repr, taken))}, which group"
            f" {options.group!r} has already (mode 'overwrite' replaces)"
        )
    if options.mode is WriteMode.CREATE and there:
        raise AlreadyExistsError(f"group {options.group!r} has arrays already")
    kept = [
        ChunkTarget(
            path=group.child(name),
            document=session.node(group.child(name)).user_data,
            shape=array.shape,
            chunks=array.chunks,
            dtype=array.dtype,
            is_new=False,
        )
        for name, array in there.items()
        if name not in taken
    ]
    made = [_new_target(group.child(name), told) for name, told in options.arrays.items()]
    if not kept and not made:
        raise InvalidInputError(
            f"group {options.group!r} has no arrays: say with the option 'arrays' which to make"
        )
    return (*kept, *made)


def store_row(
    targets: Sequence[ChunkTarget],
    options: WriteOptions,
    writer: ChunkWriter,
    row: Mapping[str, Any],
) -> StoredChunks:
    """Stores a row; runs on an executor."""
    number = _find_target(targets, options, row)
    target = targets[number]
    index = row["chunk"]
    if index is None:
        raise InvalidInputError(f"a row of {target.path.name!r} does not say which chunk it is")
    region = target.region(index)
    shape = [part.stop - part.start for part in region]
    _require_place(target, row, region, shape)
    if row["data"] is None:
        refs = ChunkRefs.empty(len(shape))
    elif not options.encode:
        where = np.array([index], dtype=np.uint32)
        refs = ChunkRefs.from_payloads(where, [writer.put_chunk(row["data"])])
    else:
        values = _values(target, row.get("dtype"), row["data"], shape)
        refs = store_region(target.document, writer, region, values)
    emptied = np.array([index] if not len(refs) else [], dtype=np.uint32)
    return StoredChunks(number, refs, emptied.reshape(-1, len(shape)), rows=0)


def _find_target(
    targets: Sequence[ChunkTarget], options: WriteOptions, row: Mapping[str, Any]
) -> int:
    name = row["array"] or ""
    path = name if name.startswith("/") else str(NodePath(options.group).child(name or "?"))
    for number, target in enumerate(targets):
        if target.path.text == path:
            return number
    raise InvalidInputError(
        f"a row is for the array {name!r}; there is"
        f" {', '.join(target.path.name for target in targets)}"
    )


def _require_place(
    target: ChunkTarget, row: Mapping[str, Any], region: tuple[slice, ...], shape: Sequence[int]
) -> None:
    """Checks that a row describes its chunk as the array does."""
    for name, wanted in (("offset", [part.start for part in region]), ("shape", list(shape))):
        given = row.get(name)
        if given is not None and given != wanted:
            raise InvalidInputError(
                f"chunk {row['chunk']} of {target.path.name!r} has the {name} {wanted},"
                f" a row says {given}"
            )


def _values(target: ChunkTarget, dtype: str | None, data: bytes, shape: Sequence[int]) -> Any:
    given = target.dtype.newbyteorder("<")
    if given.hasobject or given.kind == "T":
        raise InvalidInputError(
            f"{target.path.name!r} is of text, which has no bytes of fixed size: write it encoded"
            " (option `encode` false), or as rows"
        )
    if dtype is not None and not _same_dtype(dtype, given):
        raise InvalidInputError(
            f"a row of {target.path.name!r} has data of {dtype!r}, the array is {target.dtype}"
        )
    wanted = int(np.prod(shape, dtype=np.int64)) * given.itemsize
    if len(data) != wanted:
        raise InvalidInputError(
            f"a row of {target.path.name!r} has {len(data)} bytes, its chunk of the shape"
            f" {list(shape)} has {wanted}"
        )
    return np.frombuffer(data, dtype=given).reshape(shape)


def _same_dtype(text: str, dtype: np.dtype[Any]) -> bool:
    try:
        return np.dtype(text).newbyteorder("<") == dtype
    except TypeError:
        return False


def _new_target(path: NodePath, told: Mapping[str, Any]) -> ChunkTarget:
    unknown = sorted(told.keys() - _ARRAY_KEYS)
    missing = sorted({"shape", "chunks", "dtype"} - told.keys())
    if unknown or missing:
        raise InvalidInputError(
            f"option 'arrays', of {path.name!r}:"
            + (f" {', '.join(unknown)} is not known" if unknown else "")
            + (f" {', '.join(missing)} is missing" if missing else "")
            + f"; expected {', '.join(sorted(_ARRAY_KEYS))}"
        )
    document = array_document(
        shape=told["shape"],
        chunks=told["chunks"],
        dtype=told["dtype"],
        fill_value=told.get("fill_value"),
        dims=told.get("dims") or [f"dim_{k}" for k in range(len(told["shape"]))],
        attributes=told.get("attrs") or {},
        codecs=told.get("codecs"),
    )
    return ChunkTarget(
        path=path,
        document=document,
        shape=tuple(told["shape"]),
        chunks=tuple(told["chunks"]),
        dtype=np.dtype(told["dtype"]),
        is_new=True,
    )


def _require_columns(schema: StructType) -> None:
    given = {field.name: field.dataType.simpleString() for field in schema}
    for name, wanted in COLUMNS.items():
        if name not in given and name in _OPTIONAL:
            continue
        if given.get(name) != wanted:
            raise InvalidInputError(
                f"chunk rows have the columns {', '.join(f'{n} {t}' for n, t in COLUMNS.items())};"
                f" {name} is {given.get(name, 'missing')}"
            )
