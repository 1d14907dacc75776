"""Whether chunks of files can be the chunks of one array."""

import json
from dataclasses import replace

import numpy as np
import pytest

from frazil.errors import InvalidInputError
from frazil.spark.ingestion.ingest_layout import Wanted, choose_storage
from frazil.spark.sources import SourceDescription, VariableDescription
from frazil.spark.sources.source_types import Storage, StoredAs

CODECS = [{"name": "bytes"}, {"name": "numcodecs.zlib", "configuration": {"level": 4}}]
CHUNKED = StoredAs(chunks=(4, 50_000), data_type="float64", codecs=json.dumps(CODECS), fill="0.0")
IN_A_ROW = replace(CHUNKED, chunks=(8, 50_000), codecs='[{"name": "bytes"}]', is_row=True)


def source(number: int, length: int, storage: Storage, width: int) -> SourceDescription:
    variable = VariableDescription(
        name="v",
        dims=("time", "x"),
        shape=(length, width),
        dtype=np.dtype("f8"),
        attrs={},
        chunks=None,
        storage=storage,
    )
    return SourceDescription(path=f"{number}.nc", attrs={}, variables={"v": variable})


def chosen(
    *storages: Storage,
    lengths: tuple[int, ...] = (8, 8),
    width: int = 50_000,
    chunks: dict[str, int] | None = None,
) -> StoredAs | None:
    pairs = zip(lengths, storages, strict=True)
    ordered = [source(number, *each, width) for number, each in enumerate(pairs)]
    starts = np.cumsum([0, *lengths])
    wanted = Wanted(
        variable=ordered[0].variables["v"],
        shape=(int(starts[-1]), width),
        starts=starts,
        axis=0,
        chunks=chunks or {},
        exists=False,
    )
    return choose_storage(wanted, ordered)


def test_files_that_are_stored_alike_make_one_array() -> None:
    assert chosen(CHUNKED, CHUNKED) == CHUNKED
    assert chosen(CHUNKED, CHUNKED, lengths=(8, 3)) == CHUNKED  # the last may end anywhere


def test_how_hard_files_were_compressed_does_not_matter() -> None:
    harder = replace(CHUNKED, codecs=CHUNKED.codecs.replace("4", "9"))
    assert chosen(CHUNKED, harder) == CHUNKED


def test_values_in_one_piece_are_cut_so_that_all_chunks_are_full() -> None:
    found = chosen(IN_A_ROW, IN_A_ROW.cut(12), lengths=(8, 12))
    assert found is not None
    assert found.chunks == (4, 50_000)
    fine = chosen(IN_A_ROW, IN_A_ROW.cut(12), lengths=(8, 12), chunks={"time": 2})
    assert fine is not None
    assert fine.chunks == (2, 50_000)


def test_a_source_without_a_fill_value_is_appended_whatever_the_array_has() -> None:
    """As at the start, when the array got one that the source did not ask for."""
    there = source(0, 8, replace(CHUNKED, fill='"NaN"'), 50_000).variables["v"]

    def appended(fill: str | None) -> StoredAs | None:
        wanted = Wanted(
            variable=replace(there, chunks=CHUNKED.chunks),
            shape=(16, 50_000),
            starts=np.array([8, 16]),
            axis=0,
            chunks={},
            exists=True,
        )
        return choose_storage(wanted, [source(1, 8, replace(CHUNKED, fill=fill), 50_000)])

    assert appended('"NaN"') is not None
    assert appended(None) is not None
    with pytest.raises(InvalidInputError, match="fill are"):
        appended("1.0")


@pytest.mark.parametrize(
    ("other", "lengths", "reason"),
    [
        (replace(CHUNKED, chunks=(2, 50_000)), (8, 8), "chunks are"),
        (replace(CHUNKED, data_type="int64"), (8, 8), "data_type are"),
        (replace(CHUNKED, codecs='[{"name": "bytes"}]'), (8, 8), "codecs are"),
        (replace(CHUNKED, fill="1.0"), (8, 8), "fill are"),
        ("HDF5's filter 4 (szip)", (8, 8), "szip"),
        (CHUNKED, (6, 8), "begin at 6.*chunk of 4"),
    ],
)
def test_others_are_refused_and_named(
    other: Storage, lengths: tuple[int, int], reason: str
) -> None:
    with pytest.raises(InvalidInputError, match=rf"^1\.nc: variable 'v' cannot be.*{reason}"):
        chosen(CHUNKED, other, lengths=lengths)


def test_other_chunks_than_those_of_the_files_cannot_be_had() -> None:
    with pytest.raises(InvalidInputError, match="its chunks are 4 along 'time'"):
        chosen(CHUNKED, CHUNKED, chunks={"time": 3})


def test_small_arrays_that_cannot_be_virtual_are_copied() -> None:
    small = replace(CHUNKED, chunks=(4, 5))
    assert chosen(small, "HDF5's filter 4 (szip)", width=5) is None
