"""Many rows of one table type as columns, and the columns that hold further tables."""

from collections.abc import Mapping, Sequence
from functools import lru_cache
from types import MappingProxyType
from typing import Any, Self, assert_never, cast

import numpy as np
import numpy.typing as npt

from frazil.dataclass import dataclass
from frazil.errors import InvalidInputError
from frazil.flatbuf.columns import (
    Rows,
    ScalarColumn,
    StringColumn,
    StringVectorColumn,
    StructColumn,
    VectorColumn,
    all_true,
    concat_splits,
    freeze,
    require_splits,
)
from frazil.flatbuf.ragged import (
    Bools,
    Ints,
    all_within,
    constant,
    make_unchecked,
    run_index,
    splits_of,
)
from frazil.flatbuf.schema import (
    Bytes,
    Field,
    Kind,
    Scalar,
    ScalarVector,
    String,
    StringVector,
    Struct,
    StructVector,
    SubTable,
    TableSchema,
    TableVector,
    Union,
)


@dataclass(frozen=True, slots=True, eq=False)
class Table:
    """`count` rows of `schema`; every field has a column of that many rows.

    Made by `build`, which checks, by the decoder, and by `take` and `concat`.
    """

    schema: TableSchema
    count: int
    columns: Mapping[str, "Column"]

    @classmethod
    def build(cls, schema: TableSchema, count: int, /, **columns: "Column") -> Self:
        """A table of these columns. Fields not given are absent in every row, unless required."""
        _require_fit(schema, count, columns)
        complete: dict[str, Column] = {}
        for field in schema.fields:
            column = columns.get(field.name)
            if column is None:
                if field.required and count:
                    raise InvalidInputError(_missing_message(schema, field))
                column = absent_column(field.kind, count)
            complete[field.name] = column
        return cls(schema, count, MappingProxyType(complete))

    @staticmethod
    def empty(schema: TableSchema) -> "Table":
        return _empty(schema)

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, name: str) -> "Column":
        return self.columns[name]

    def __reduce__(self) -> tuple[object, ...]:  # a mapping proxy cannot be pickled
        return (_revive, (self.schema, self.count, dict(self.columns)))

    def scalar(self, name: str) -> ScalarColumn:
        return self._typed(name, ScalarColumn)

    def struct(self, name: str) -> StructColumn:
        return self._typed(name, StructColumn)

    def string(self, name: str) -> StringColumn:
        """The column of a String or Bytes field."""
        return self._typed(name, StringColumn)

    def vector(self, name: str) -> VectorColumn:
        """The column of a ScalarVector or StructVector field."""
        return self._typed(name, VectorColumn)

    def strings(self, name: str) -> StringVectorColumn:
        return self._typed(name, StringVectorColumn)

    def tables(self, name: str) -> "TableVectorColumn":
        return self._typed(name, TableVectorColumn)

    def subtable(self, name: str) -> "SubTableColumn":
        return self._typed(name, SubTableColumn)

    def union(self, name: str) -> "UnionColumn":
        return self._typed(name, UnionColumn)

    def _typed[C](self, name: str, kind: type[C]) -> C:
        column = self.columns[name]
        if not isinstance(column, kind):
            raise TypeError(f"{self.schema.name}.{name} is a {type(column).__name__}")
        return column

    def take(self, rows: npt.NDArray[Any] | slice) -> Self:
        """These rows in this order: row numbers, one boolean for each row, or a range of rows."""
        index: Rows
        if isinstance(rows, slice):
            index, count = rows, len(range(self.count)[rows])
        else:
            index = np.flatnonzero(rows) if rows.dtype == np.bool_ else rows.astype(np.int64)
            count = len(index)
        columns = {name: column.take(index) for name, column in self.columns.items()}
        return type(self)(self.schema, count, MappingProxyType(columns))

    @classmethod
    def concat(cls, parts: Sequence[Self]) -> Self:
        """The rows of all parts, which have one schema and are at least one."""
        if not parts or any(part.schema != parts[0].schema for part in parts):
            raise InvalidInputError("only tables of one schema can be put together")
        filled = [part for part in parts if len(part)]
        if len(filled) < 2:  # nothing to put together, as in most variants of a union
            return filled[0] if filled else parts[0]
        parts = filled
        columns = {
            # The schemas are equal, so the columns of one name are of one type.
            name: cast("Any", column).concat([part.columns[name] for part in parts])
            for name, column in parts[0].columns.items()
        }
        return cls(parts[0].schema, sum(map(len, parts)), MappingProxyType(columns))

    def replace(self, **columns: "Column") -> Self:
        """The same rows with other columns in place of those named."""
        _require_fit(self.schema, self.count, columns)  # the others do already
        return type(self)(self.schema, self.count, MappingProxyType({**self.columns, **columns}))

    def equals(self, other: "Table") -> bool:
        return (
            self.count == other.count
            and self.schema == other.schema
            and all(
                cast("Any", column).equals(other.columns[name])
                for name, column in self.columns.items()
            )
        )


@lru_cache(maxsize=256)
def _empty(schema: TableSchema) -> Table:
    """Made once: tables without rows are the most frequent of all."""
    columns = {field.name: absent_column(field.kind, 0) for field in schema.fields}
    return Table(schema, 0, MappingProxyType(columns))


def _revive(schema: TableSchema, count: int, columns: dict[str, "Column"]) -> Table:
    return Table(schema, count, MappingProxyType(columns))


@dataclass(frozen=True, slots=True, eq=False)
class TableVectorColumn:
    """Vectors of tables: row i is rows `splits[i]` to `splits[i + 1]` of `rows`."""

    splits: Ints  # (n + 1,)
    rows: Table
    present: Bools  # (n,)

    def __post_init__(self) -> None:
        freeze(self)
        require_splits(self.splits, self.present, len(self.rows))

    @classmethod
    def of(cls, rows: Table, splits: Ints | None = None) -> Self:
        """Vectors present in every row; without `splits` a single row with all of `rows`."""
        if splits is None:
            splits = np.array([0, len(rows)], np.int64)
        return cls(splits, rows, all_true(len(splits) - 1))

    def __len__(self) -> int:
        return len(self.present)

    def take(self, rows: Rows) -> Self:
        start, stop = self.splits[:-1][rows], self.splits[1:][rows]
        if isinstance(rows, slice) and rows.step is None:  # what is next to each other stays so
            inner = self.rows.take(slice(*(start[:1].tolist() + stop[-1:].tolist() or [0])))
        else:
            inner = self.rows.take(run_index(start, stop - start))
        return make_unchecked(type(self), splits_of(stop - start), inner, self.present[rows])

    @classmethod
    def concat(cls, parts: Sequence[Self]) -> Self:
        return make_unchecked(
            cls,
            concat_splits([part.splits for part in parts]),
            Table.concat([part.rows for part in parts]),
            np.concatenate([part.present for part in parts]),
        )

    def equals(self, other: "TableVectorColumn") -> bool:
        return (
            np.array_equal(self.present, other.present)
            and np.array_equal(self.splits, other.splits)
            and self.rows.equals(other.rows)
        )


@dataclass(frozen=True, slots=True, eq=False)
class SubTableColumn:
    """A table, or none, for each row: row `index[i]` of `rows`, none for -1."""

    rows: Table
    index: Ints  # (n,)

    def __post_init__(self) -> None:
        freeze(self)
        _require_index(self.index, len(self.rows))

    @classmethod
    def of(cls, rows: Table) -> Self:
        return cls(rows, np.arange(len(rows), dtype=np.int64))

    @property
    def present(self) -> Bools:
        return self.index >= 0

    def __len__(self) -> int:
        return len(self.index)

    def take(self, rows: Rows) -> Self:
        """Takes rows; inner rows without a user are dropped, shared ones are duplicated."""
        index = self.index[rows]
        return make_unchecked(
            type(self), self.rows.take(index[index >= 0]), _number_present(index >= 0)
        )

    @classmethod
    def concat(cls, parts: Sequence[Self]) -> Self:
        index = _concat_index([(part.index, len(part.rows)) for part in parts])
        return make_unchecked(cls, Table.concat([part.rows for part in parts]), index)

    def equals(self, other: "SubTableColumn") -> bool:
        every = np.arange(len(self), dtype=np.int64)
        return np.array_equal(self.present, other.present) and self.take(every).rows.equals(
            other.take(every).rows
        )


@dataclass(frozen=True, slots=True, eq=False)
class UnionColumn:
    """Row i is row `index[i]` of `variants[types[i]]`.

    Type 0 is none. A decoded type that the schema does not know keeps its number and has the
    index -1; such a row can be looked at, not encoded.
    """

    types: npt.NDArray[np.uint8]  # (n,)
    index: Ints  # (n,)
    variants: Mapping[int, Table]

    def __post_init__(self) -> None:
        freeze(self)
        object.__setattr__(self, "variants", MappingProxyType(dict(self.variants)))
        if self.types.dtype != np.uint8 or self.types.shape != self.index.shape:
            raise ValueError(f"{self.types.dtype} {self.types.shape} types for {self.index.shape}")
        counts = np.zeros(256, np.int64)  # by type, so that all variants are checked at once
        for code, rows in self.variants.items():
            counts[code] = len(rows)
        if bool(((self.index < -1) | (self.index >= counts[self.types])).any()):
            raise ValueError("an index is not -1 to the last row of its variant")

    def __reduce__(self) -> tuple[object, ...]:  # a mapping proxy cannot be pickled
        return (UnionColumn, (self.types, self.index, dict(self.variants)))

    @property
    def present(self) -> Bools:
        return self.types.astype(np.bool_)

    def __len__(self) -> int:
        return len(self.types)

    def take(self, rows: Rows) -> Self:
        types, taken = self.types[rows], self.index[rows]
        index = np.full(len(types), -1, np.int64)
        variants = {}
        for code, table in self.variants.items():
            if not len(table):
                variants[code] = table
                continue
            mine = types == code
            index[mine] = np.arange(np.count_nonzero(mine))
            variants[code] = table.take(taken[mine])
        return make_unchecked(type(self), types, index, MappingProxyType(variants))

    @classmethod
    def concat(cls, parts: Sequence[Self]) -> Self:
        types = np.concatenate([part.types for part in parts])
        index = np.concatenate([part.index for part in parts])
        variants = {}
        for code, rows in parts[0].variants.items():
            if not any(len(part.variants[code]) for part in parts):
                variants[code] = rows
                continue
            sizes = [(part.index, len(part.variants[code])) for part in parts]
            index = np.where(types == code, _concat_index(sizes), index)
            variants[code] = Table.concat([part.variants[code] for part in parts])
        return make_unchecked(cls, types, index, MappingProxyType(variants))

    def equals(self, other: "UnionColumn") -> bool:
        if not np.array_equal(self.types, other.types):
            return False
        every = np.arange(len(self), dtype=np.int64)
        mine, theirs = self.take(every).variants, other.take(every).variants
        return mine.keys() == theirs.keys() and all(
            table.equals(theirs[code]) for code, table in mine.items()
        )


type Column = (
    ScalarColumn
    | StructColumn
    | StringColumn
    | VectorColumn
    | StringVectorColumn
    | TableVectorColumn
    | SubTableColumn
    | UnionColumn
)


def absent_column(kind: Kind, count: int) -> Column:
    """A column in which no row has the field."""
    nowhere = constant(False, np.bool_, count)  # a column without values takes no memory
    match kind:
        case Scalar(dtype, default):
            return ScalarColumn(constant(default, dtype, count), nowhere)
        case Struct(size):
            return StructColumn(np.broadcast_to(np.uint8(0), (count, size)), nowhere)
        case String() | Bytes():
            return StringColumn.absent(count)
        case SubTable(schema):
            return SubTableColumn(Table.empty(schema), np.full(count, -1, np.int64))
        case Union(schemas):
            variants = {code: Table.empty(schema) for code, schema in schemas.items()}
            index = np.full(count, -1, np.int64)
            return UnionColumn(np.zeros(count, np.uint8), index, variants)
        case _:
            return _absent_vectors(kind, nowhere)


def _absent_vectors(
    kind: ScalarVector | StructVector | StringVector | TableVector, nowhere: Bools
) -> Column:
    none = np.zeros(len(nowhere) + 1, np.int64)
    match kind:
        case ScalarVector(dtype):
            return VectorColumn(np.zeros(0, dtype), none, nowhere)
        case StructVector(size):
            return VectorColumn(np.zeros((0, size), np.uint8), none, nowhere)
        case StringVector():
            return StringVectorColumn(none, StringColumn.absent(0), nowhere)
        case TableVector(schema):
            return TableVectorColumn(none, Table.empty(schema), nowhere)
        case _:
            assert_never(kind)


def defaults(dtype: str, default: float, count: int) -> npt.NDArray[Any]:
    return np.full(count, default, dtype)


_COLUMN_TYPES: Mapping[type[Kind], type[Column]] = {
    Scalar: ScalarColumn,
    Struct: StructColumn,
    String: StringColumn,
    Bytes: StringColumn,
    ScalarVector: VectorColumn,
    StructVector: VectorColumn,
    StringVector: StringVectorColumn,
    TableVector: TableVectorColumn,
    SubTable: SubTableColumn,
    Union: UnionColumn,
}


def mismatch(kind: Kind, column: Column) -> str | None:
    """The reason why `column` does not fit a field of this kind; None if it does."""
    expected = _COLUMN_TYPES[type(kind)]
    if not isinstance(column, expected):
        return f"a {type(column).__name__}, expected a {expected.__name__}"
    match column:
        case ScalarColumn(values) | StructColumn(values) | VectorColumn(values):
            return _wrong_values(kind, values)
        case TableVectorColumn(rows=rows) | SubTableColumn(rows=rows):
            wanted = cast("TableVector | SubTable", kind).schema
            return None if rows.schema == wanted else f"of {rows.schema.name} rows"
        case UnionColumn(types, _, variants):
            schemas = cast("Union", kind).variants
            if {code: table.schema for code, table in variants.items()} != schemas:
                return "of other variants than the union has"
            known = {0, *schemas}.issuperset(np.bincount(types).nonzero()[0].tolist())
            return None if known else "of a type that the union does not know"
        case _:
            return None


def _require_fit(schema: TableSchema, count: int, columns: Mapping[str, Column]) -> None:
    """Raises InvalidInputError unless these can be columns of `count` rows of the schema."""
    fields = _fields(schema)
    for name, column in columns.items():
        if name not in fields:
            raise InvalidInputError(f"{schema.name} has no field {name!r}")
        if len(column) != count:
            raise InvalidInputError(
                f"{schema.name}.{name} has {len(column)} rows, expected {count}"
            )
        if problem := mismatch(fields[name].kind, column):
            raise InvalidInputError(f"{schema.name}.{name} is {problem}")
        if fields[name].required and not column.present.all():
            raise InvalidInputError(_missing_message(schema, fields[name]))


@lru_cache(maxsize=256)
def _fields(schema: TableSchema) -> Mapping[str, Field]:
    return MappingProxyType({field.name: field for field in schema.fields})


def _missing_message(schema: TableSchema, field: Field) -> str:
    return f"{schema.name}.{field.name} is required and missing in some row"


def _wrong_values(kind: Kind, values: npt.NDArray[Any]) -> str | None:
    if isinstance(kind, Struct | StructVector):
        wanted, shape = np.dtype(np.uint8), (*values.shape[:1], kind.size)
    else:
        wanted, shape = np.dtype(cast("Scalar | ScalarVector", kind).dtype), values.shape[:1]
    if values.dtype == wanted and values.shape == shape:
        return None
    return f"of {values.dtype} {values.shape}, expected {wanted} {shape}"


def _require_index(index: Ints, count: int) -> None:
    if not all_within(index, -1, count):
        raise ValueError(f"an index is not -1 to {count - 1}")


def _number_present(present: Bools) -> Ints:
    return np.where(present, np.cumsum(present) - 1, -1)


def _concat_index(parts: Sequence[tuple[Ints, int]]) -> Ints:
    shifts = splits_of(np.array([count for _, count in parts]))
    return np.concatenate(
        [
            np.where(index < 0, -1, index + shift)
            for (index, _), shift in zip(parts, shifts[:-1], strict=True)
        ]
    )
