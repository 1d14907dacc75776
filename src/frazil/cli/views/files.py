"""Parts of arrays to files, and files to arrays."""

import csv
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from frazil.cli.views.selected import Selected, columns, texts_of
from frazil.errors import InvalidInputError


def write_file(chosen: Selected, file: Path) -> tuple[int, ...]:
    """In the format its name says; the shape of what was written."""
    if file.suffix == ".npy":
        values = chosen.squeezed(chosen.values(decoded=False))
        np.save(file, values, allow_pickle=False)
        return values.shape
    table = columns(chosen)
    if file.suffix == ".csv":
        _write_csv(table, file)
    else:
        from frazil.spark.parquet_file import write_parquet

        write_parquet(table, file)
    return chosen.shape


def _write_csv(table: dict[str, npt.NDArray[Any]], file: Path) -> None:
    with file.open("w", newline="") as opened:
        writer = csv.writer(opened, lineterminator="\n")
        writer.writerow(table)
        writer.writerows(zip(*map(texts_of, table.values()), strict=True))


def read_file(file: Path, ndim: int | None) -> npt.NDArray[Any]:
    """A numpy file, or numbers in lines (.csv, .txt), which have at least `ndim` dimensions."""
    try:
        if file.suffix == ".npy":
            found: npt.NDArray[Any] = np.load(file, allow_pickle=False)
            return found
        with file.open() as opened:
            least: Any = min(ndim or 0, 2)  # all that lines can have
            return np.loadtxt(opened, delimiter="," if file.suffix == ".csv" else None, ndmin=least)
    except (ValueError, EOFError) as error:
        first = str(error).partition("\n")[0]
        raise InvalidInputError(f"cannot read {file}: {first}") from error
