"""Rows, as columns of Arrow, on their way to cells."""

from collections.abc import Mapping

import numpy as np
import pyarrow as pa

from frazil.errors import InvalidInputError
from frazil.spark.writing.blocks import Indices, place
from frazil.spark.writing.columns import Column, StoredColumn, encode_column, encode_coordinate
from frazil.spark.writing.coordinates import Coordinate, locate, refuse_unknown
from frazil.spark.writing.layout import Layout

type Table = pa.Table | pa.RecordBatch


def column_of(table: Table, name: str) -> pa.Array:
    column = table.column(name)
    return column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column


def require_coordinates(table: Table, dims: tuple[str, ...]) -> None:
    """A row without a coordinate is refused where it is seen first."""
    for dim in dims:
        nulls = table.column(dim).null_count
        if nulls:
            raise InvalidInputError(
                f"dimension {dim!r} is NULL in {nulls} rows: they have no place",
                kind="null-coordinate",
            )


def positions_of(coordinate: Coordinate, table: Table) -> Indices:
    """Along one dimension. Raises InvalidInputError for a row outside."""
    values = encode_coordinate(coordinate.column, column_of(table, coordinate.name))
    found = locate(coordinate, values)
    outside = np.flatnonzero(found < 0)
    if len(outside):
        raise refuse_unknown(coordinate, values[outside[0]])
    return found


def place_rows(layout: Layout, table: Table) -> tuple[Indices, Indices]:
    """Block and cell of each row."""
    return place(layout.grid, [positions_of(c, table) for c in layout.coordinates])


def encode_rows(layout: Layout, table: Table) -> dict[str, Column]:
    """Stored values of the variables."""
    return {
        array.name: encode_column(array.column, column_of(table, array.name))
        for array in layout.arrays
    }


def distinct_values(columns: Mapping[str, StoredColumn], table: Table) -> dict[str, Column]:
    """Stored coordinates of the rows, each once."""
    return {
        name: np.unique(encode_coordinate(column, column_of(table, name).unique()))
        for name, column in columns.items()
    }
