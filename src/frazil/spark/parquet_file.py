"""Columns as one Parquet file, for who wants a file rather than a job."""

import os
from collections.abc import Mapping
from typing import Any

import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq


def write_parquet(columns: Mapping[str, npt.NDArray[Any]], file: str | os.PathLike[str]) -> None:
    """Columns of equal length; NaT becomes NULL, NaN stays."""
    pq.write_table(pa.table({name: pa.array(each) for name, each in columns.items()}), file)
