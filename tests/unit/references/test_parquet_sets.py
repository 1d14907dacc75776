"""Reference sets in Parquet, by column."""

import json
from contextlib import suppress
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from frazil.errors import FormatError
from frazil.references.columns import ReferenceSet
from frazil.references.parquet_sets import LocalFiles, read_parquet_set

ARRAY = {
    "shape": [3, 4], "chunks": [1, 2], "dtype": "<f4", "fill_value": None, "order": "C",
    "filters": None, "compressor": None, "zarr_format": 2,
}  # fmt: skip
CHUNKS = 6


def written(directory: Path, record_size: int, *tables: pa.Table | None) -> Path:
    (directory / "a").mkdir(parents=True, exist_ok=True)
    metadata = {"metadata": {"a/.zarray": ARRAY}, "record_size": record_size}
    (directory / ".zmetadata").write_text(json.dumps(metadata))
    for number, table in enumerate(tables):
        file = directory / "a" / f"refs.{number}.parq"
        file.unlink(missing_ok=True)
        if table is not None:
            pq.write_table(table, file)
    return directory


def read(directory: Path) -> ReferenceSet:
    found = read_parquet_set(LocalFiles(directory))
    assert found is not None
    return found


def rows(directory: Path) -> dict[tuple[int, ...], Any]:
    chunks = read(directory).chunks["a"]
    locations, inline = chunks.location.to_texts(), chunks.inline.to_list()
    return {
        tuple(index): inline[row]
        if inline[row] is not None
        else (locations[row], int(chunks.offset[row]), int(chunks.length[row]), bool(whole))
        for row, (index, whole) in enumerate(
            zip(chunks.index.tolist(), chunks.whole.tolist(), strict=True)
        )
    }


reference = st.one_of(
    st.none(),
    st.binary(min_size=1, max_size=5),
    st.tuples(st.sampled_from("xyz"), st.just(0), st.just(0)),
    st.tuples(st.sampled_from("xyz"), st.integers(0, 2**40), st.integers(1, 2**40)),
)


@given(
    st.lists(reference, min_size=CHUNKS, max_size=CHUNKS),
    st.integers(1, 8),
    st.booleans(),
)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_what_is_written_is_read(
    tmp_path: Path,
    references: list[Any],
    record_size: int,
    coded: bool,  # noqa: FBT001 -- hypothesis
) -> None:
    padded = references + [None] * (-CHUNKS % record_size)
    tables = []
    for first in range(0, CHUNKS, record_size):
        part = padded[first : first + record_size]
        is_part = [isinstance(one, tuple) for one in part]
        path = pa.array(
            [one[0] if there else None for one, there in zip(part, is_part, strict=True)],
            pa.string(),
        )
        tables.append(
            pa.table(
                {
                    "path": path.dictionary_encode() if coded else path,
                    "offset": [one[1] if isinstance(one, tuple) else 0 for one in part],
                    "size": [one[2] if isinstance(one, tuple) else 0 for one in part],
                    "raw": pa.array(
                        [one if isinstance(one, bytes) else None for one in part], pa.binary()
                    ),
                }
            )
        )
    expected = {
        divmod(number, 2): (*one, one[1:] == (0, 0)) if isinstance(one, tuple) else one
        for number, one in enumerate(references)
        if one is not None
    }
    assert rows(written(tmp_path / "set", record_size, *tables)) == expected


def test_columns_and_files_that_hold_nothing_may_be_missing(tmp_path: Path) -> None:
    only_raw = pa.table({"raw": [b"x", None]})
    only_paths = pa.table({"path": ["f", "g"], "offset": [8, 0], "size": [4, 0]})
    nulls = pa.table({"path": pa.nulls(2), "offset": [0, 0], "size": [0, 0], "raw": pa.nulls(2)})
    assert rows(written(tmp_path / "a", 2, only_raw, None, only_paths)) == {
        (0, 0): b"x",
        (2, 0): ("f", 8, 4, False),
        (2, 1): ("g", 0, 0, True),
    }
    assert rows(written(tmp_path / "b", 2, nulls)) == {}


@pytest.mark.parametrize(
    "table",
    [
        pa.table({"path": ["f"], "offset": [-1], "size": [4]}),
        pa.table({"path": ["f"], "offset": [4], "size": [0]}),
        pa.table({"path": ["f"], "offset": ["four"], "size": [4]}),
        pa.table({"path": [1.5], "offset": [0], "size": [4]}),
        pa.table({"path": [["f"]], "offset": [0], "size": [4]}),
        pa.table({"raw": [b""]}),
    ],
)
def test_what_cannot_be_is_refused(tmp_path: Path, table: pa.Table) -> None:
    with pytest.raises(FormatError, match=r"a/refs\.0\.parq"):
        read(written(tmp_path / "set", 10, table))


@given(st.binary(max_size=200), st.integers(0, 400))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_damaged_files_are_read_or_refused(tmp_path: Path, data: bytes, at: int) -> None:
    table = pa.table({"path": ["f"] * 6, "offset": [8] * 6, "size": [4] * 6})
    directory = written(tmp_path / "set", 10, table)
    file = directory / "a" / "refs.0.parq"
    good = file.read_bytes()
    file.write_bytes(good[:at] + data + good[at + len(data) :])
    with suppress(FormatError):
        read(directory)
