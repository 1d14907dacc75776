"""HDF5 files of 10,000 tiny chunks each, referred to: how time and the driver's memory grow.

A row is a reference. Bytes are those of a manifest's row, not of data: no data is read.
"""

from functools import partial
from pathlib import Path

import h5py
import numpy as np

import frazil
from benchmarks.spark.meter import Meter
from benchmarks.spark.sample import amount, start_spark
from frazil.spark.ingestion.ingest import ingest

HOURS = 10  # in each file
CELLS = 1000
PER_FILE = HOURS * CELLS
COUNTS = tuple(dict.fromkeys((10_000, 100_000, amount(1_000_000, 100_000))))
MANY = amount(10_000_000, 200_000)  # with --many


def prepare(folder: Path, counts: tuple[int, ...] = COUNTS) -> None:
    (folder / "files").mkdir()
    for number in range(max(counts) // PER_FILE):
        _write_file(folder / "files" / f"{number:05d}.nc", number)


def _write_file(path: Path, number: int) -> None:
    with h5py.File(path, "w", libver="latest") as file:
        hours = number * HOURS + np.arange(HOURS)
        file["time"], file["cell"] = hours, np.arange(CELLS)
        values = (hours[:, None] * CELLS + np.arange(CELLS)).astype(np.float32)
        made = file.create_dataset("value", data=values, chunks=(1, 1))
        for axis, name in enumerate(("time", "cell")):
            file[name].make_scale(name)
            made.dims[axis].attach_scale(file[name])


def measure(folder: Path, meter: Meter, counts: tuple[int, ...] = COUNTS) -> None:
    spark = start_spark()
    files = sorted((folder / "files").iterdir())
    prefix = f"file://{folder}/files/"

    def work(count: int, number: int) -> None:
        config = frazil.RepositoryConfig.default()
        container = frazil.VirtualChunkContainer(prefix, frazil.local_filesystem_store(prefix))
        config.set_virtual_chunk_container(container)
        storage = frazil.local_filesystem_storage(str(folder / f"repo-{count}-{number}"))
        repo = frazil.Repository.create(storage, config)
        chosen = files[: count // PER_FILE]
        result = ingest(spark, chosen, repo, concat_dim="time", virtual=True, progress=False)
        assert result.virtual_chunks == count

    work(counts[0], -1)
    for count in counts:
        meter.warm(
            f"{count:,} references",
            partial(work, count),
            rows=count,
            size_bytes=count * 4,
        )


SIDES = {"frazil": measure}
