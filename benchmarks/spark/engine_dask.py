"""xarray and dask over the reference, on threads; VirtualiZarr for references to files."""

import shutil
from pathlib import Path

import dask
import icechunk
import xarray as xr
from icechunk.xarray import to_icechunk

from benchmarks.spark.data import (
    DAY,
    SERIES,
    TILES,
    Sample,
    create_repository,
    open_dataset,
    paths_of,
    write_virtual,
)
from benchmarks.spark.engine import CORES, Engine, Work, Written
from benchmarks.spark.queries import Query


class Dask(Engine):
    def __init__(self, sample: Sample, scratch: Path) -> None:
        super().__init__(sample, scratch)
        dask.config.set(scheduler="threads", num_workers=CORES)

    def query(self, query: Query) -> Work | None:
        if (arrays := query.arrays) is None:
            return None
        path = self.sample[query.source]
        return lambda _: arrays(open_dataset(path)).compute()

    def write(self) -> Work | None:
        def work(number: int) -> Written:
            cells = open_dataset(self.sample["repo"])
            return self._store(cells[["t2m"]] - 273.15, f"write-{number}", TILES)

        return work

    def append(self) -> Work | None:
        target = self.scratch / "append"
        shutil.copytree(self.sample["maps"], target)
        repo = icechunk.Repository.open(icechunk.local_filesystem_storage(str(target)))

        def work(number: int) -> Written:
            session = repo.writable_session("main")
            with xr.open_dataset(self.sample["days"] / f"{number:02d}.nc", chunks={}) as day:
                day.t2m.encoding = {}
                to_icechunk(day.chunk(time=DAY, lat=-1, lon=-1), session, append_dim="time")
            session.commit("a day")
            return Written(target)

        return work

    def ingest(self) -> Work | None:
        files = list(paths_of(self.sample["files"]))

        def work(number: int) -> Written:
            with xr.open_mfdataset(
                files,
                engine="h5netcdf",
                combine="nested",
                concat_dim="time",
                coords="minimal",
                compat="override",
                data_vars="minimal",
            ) as cells:
                return self._store(cells, f"ingest-{number}", TILES)

        return work

    def virtual_ingest(self) -> Work | None:
        files = list(paths_of(self.sample["files"]))

        def work(number: int) -> Written:
            write_virtual(files, self.scratch / f"virtual-{number}")
            return Written(self.scratch / f"virtual-{number}")

        return work

    def references(self) -> Work | None:
        files = list(paths_of(self.sample["small_chunks"]))
        return lambda number: write_virtual(files, self.scratch / f"references-{number}")

    def rechunk(self) -> Work | None:
        def work(number: int) -> Written:
            cells = open_dataset(self.sample["maps"])
            return self._store(cells, f"rechunk-{number}", (self.sample.hours, *SERIES[1:]))

        return work

    def _store(self, cells: xr.Dataset, name: str, chunks: tuple[int, ...]) -> Written:
        """Writes a dataset to a new repository, in chunks of these lengths."""
        session = create_repository(self.scratch / name).writable_session("main")
        for variable in cells.data_vars.values():
            for key in ("chunks", "preferred_chunks", "shards", "chunksizes"):
                variable.encoding.pop(key, None)
            variable.encoding = {"dtype": variable.encoding.get("dtype", variable.dtype)} | {
                key: variable.encoding[key]
                for key in ("scale_factor", "add_offset", "_FillValue")
                if key in variable.encoding
            }
        encoding = {variable: {"chunks": chunks} for variable in cells.data_vars}
        lengths = dict(zip(("time", "lat", "lon"), chunks, strict=True))
        to_icechunk(cells.chunk(lengths), session, encoding=encoding)
        session.commit(name)
        return Written(self.scratch / name)
