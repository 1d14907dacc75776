"""CF attributes on real Spark: rows, predicates and reductions, against xarray."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import zarr
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

from frazil.api import Repository
from frazil.api.storage_functions import local_filesystem_storage
from frazil.spark import read, reduce
from tests.examples_count import scaled
from tests.unit.spark.cf_cases import SIZE, Encoded, encodings

pytestmark = pytest.mark.spark


def make_repository(path: Path, cases: list[Encoded], times: Encoded) -> Repository:
    repository = Repository.create(local_filesystem_storage(path))
    with repository.transaction("main", message="encoded") as store:
        group = zarr.group(store)
        named = {**{f"v{k}": case for k, case in enumerate(cases)}, "t": times}
        for name, case in named.items():
            # JSON has no NaN; xarray writes it as text
            attrs = {k: "NaN" if v != v else v for k, v in case.attrs.items()}  # noqa: PLR0124  # NaN
            group.create_array(
                name, data=case.stored, dimension_names=["t"], attributes=attrs, fill_value=0
            )
    return repository


def numbers(frame: DataFrame) -> list[list[float | None]]:
    """Column by column, in the order of rows."""
    columns = [
        (sf.unix_micros(name) if kind == "timestamp" else sf.col(f"`{name}`")).cast("double")
        for name, kind in frame.dtypes
    ]
    table = frame.select(*columns).toArrow()
    return [
        [None if v is None or np.isnan(v) else v for v in column.to_pylist()]
        for column in table.columns
    ]


def plain(case: Encoded) -> list[float | None]:
    expected = case.expected
    if expected.dtype.kind == "M":
        micros = expected.astype(np.int64).tolist()
        return [None if pd.isna(t) else us for t, us in zip(expected, micros, strict=True)]
    return [None if np.isnan(v) else float(v) for v in expected.tolist()]


def require_close(found: list[float | None], expected: list[float | None], case: Encoded) -> None:
    assert [v is None for v in found] == [v is None for v in expected], case
    pairs = [(a, b) for a, b in zip(found, expected, strict=True) if a is not None]
    for value, wanted in pairs:
        assert value == pytest.approx(wanted, rel=1e-6, abs=1.0 if case.is_time else 1e-6), case


@settings(max_examples=scaled(2), phases=[Phase.generate])  # to shrink would take minutes
@given(
    st.lists(encodings(), min_size=6, max_size=6),
    encodings(times=True, distinct=True).filter(lambda case: len(case.stored) == SIZE),
)
def test_rows_predicates_and_reductions_are_those_of_xarray(
    spark: SparkSession,
    tmp_path_factory: pytest.TempPathFactory,
    cases: list[Encoded],
    times: Encoded,
) -> None:
    repository = make_repository(tmp_path_factory.mktemp("encoded") / "r", cases, times)
    whole = read(spark, repository)
    for case, column in zip([times, *cases], numbers(whole), strict=True):
        require_close(column, plain(case), case)
    valid = np.sort(times.expected[~pd.isna(times.expected)])
    pivot = valid[len(valid) // 2] if len(valid) else np.datetime64("2000-01-01")
    where = f"t >= '{pivot}Z'"
    assert numbers(read(spark, repository, where=where)) == numbers(whole.where(where))
    numeric = [(f"v{k}", case) for k, case in enumerate(cases) if not case.is_time]
    if numeric:
        names = [name for name, _ in numeric]
        found = numbers(reduce(spark, repository, names, over=["t"], how="max"))
        for (_, case), column in zip(numeric, found, strict=True):
            values = [v for v in plain(case) if v is not None]
            require_close(column, [max(values, default=None)], case)
