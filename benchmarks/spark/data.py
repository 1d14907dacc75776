"""The data of the benchmark: hourly global fields of one degree, as a weather model gives them.

Repositories are written by the reference, so that no engine reads files of its own. Everything is
a function of the hour, made once and kept in a folder for later runs.
"""

import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import h5py
import icechunk
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq
import xarray as xr
import zarr
from obspec_utils.registry import ObjectStoreRegistry
from obstore.store import LocalStore
from virtualizarr import open_virtual_mfdataset
from virtualizarr.parsers import HDFParser
from zarr.codecs import ZstdCodec

type Floats = npt.NDArray[np.float32]

START = np.datetime64("2024-01-20", "ns")  # the smallest size has days of two months
LAT = np.linspace(89.5, -89.5, 180, dtype=np.float32)
LON = np.arange(0.5, 360, 1, dtype=np.float32)
DIMS = ("time", "lat", "lon")
CELLS_PER_HOUR = LAT.size * LON.size
TILES = (48, 90, 180)  # chunks of 3.1 MB
MAPS = (24, 180, 360)  # chunks of 6.2 MB
SERIES = (-1, 10, 20)  # chunks of 3.8 MB, if there are 300 million cells
PACKING = {"scale_factor": 0.001, "add_offset": 30.0, "_FillValue": -32768}
ATTRIBUTES: dict[str, dict[str, Any]] = {
    "t2m": {"units": "K"},
    "u10": {"units": "m s-1"},
    "tp": {"units": "mm", **PACKING},
}
FILES = 100
FILE_DAYS = 5  # in a file of the Parquet table
DAY = 24
EXTRA_DAYS = 12  # after the end of the data, to be appended


@dataclass(frozen=True, slots=True)
class Sample:
    """Data of one size, in a folder of its own."""

    root: Path
    hours: int

    @property
    def cells(self) -> int:
        return self.hours * CELLS_PER_HOUR

    @property
    def hours_per_file(self) -> int:
        return max(1, self.hours // FILES)

    def __getitem__(self, part: str) -> Path:
        return self.root / part

    def make(self, parts: set[str]) -> None:
        """Makes what is not there yet; `MAKERS` has the names of all parts."""
        for part in sorted(parts):
            if self[part].exists():
                continue
            print(f"making {self[part]}", flush=True)
            unfinished = self[f"unfinished-{part}"]
            shutil.rmtree(unfinished, ignore_errors=True)
            unfinished.mkdir(parents=True)
            MAKERS[part](self, unfinished)
            unfinished.rename(self[part])


def sample_of(folder: Path, million_cells: int | None) -> Sample:
    """The size of some million cells, rounded up to whole chunks; None is a tiny one."""
    if million_cells is None:
        return Sample(folder / "tiny", 2 * TILES[0])
    blocks = -(-million_cells * 10**6 // (TILES[0] * CELLS_PER_HOUR))
    return Sample(folder / f"{million_cells}m", blocks * TILES[0])


def times(start: int, hours: int) -> npt.NDArray[np.datetime64]:
    return START + np.arange(start, start + hours) * np.timedelta64(1, "h")


def fields(start: int, hours: int) -> dict[str, Floats]:
    """Waves that move with the hour, and noise; rounded as packed archives are."""
    hour = np.arange(start, start + hours, dtype=np.float32)[:, None, None]
    lat, lon = np.deg2rad(LAT)[:, None], np.deg2rad(LON)
    noise = np.stack(
        [
            np.random.default_rng(number).standard_normal((LAT.size, LON.size), np.float32)
            for number in range(start, start + hours)
        ]
    )
    wave = np.sin(3 * lon + hour / 40) * np.cos(2 * lat)
    day = np.sin(lon + hour * np.float32(np.pi / 12))
    season = np.sin(lat) * np.cos(hour * np.float32(2 * np.pi / 8766))
    t2m = 300 - 45 * np.sin(lat) ** 2 - 12 * season + 8 * wave + 4 * day + 0.3 * noise
    u10 = 12 * np.sin(3 * lat) + 6 * wave + noise
    tp = np.maximum(wave + 0.5 * noise - 0.8, 0) * 10
    return {
        "t2m": np.round(t2m * 64) / 64,
        "u10": np.round(u10 * 64) / 64,
        "tp": np.round(tp, 3),
    }


def dataset(start: int, hours: int, names: tuple[str, ...] = ("t2m", "u10", "tp")) -> xr.Dataset:
    values = fields(start, hours)
    units = {name: {"units": ATTRIBUTES[name]["units"]} for name in names}
    coords = {"time": times(start, hours), "lat": LAT, "lon": LON}
    return xr.Dataset({name: (DIMS, values[name], units[name]) for name in names}, coords)


def create_repository(path: Path) -> icechunk.Repository:
    return icechunk.Repository.create(icechunk.local_filesystem_storage(str(path)))


def open_dataset(path: Path, group: str = "/") -> xr.Dataset:
    """A repository as the reference and xarray show it, by chunks of dask."""
    storage = icechunk.local_filesystem_storage(str(path))
    config = icechunk.Repository.fetch_config(storage)
    prefixes = (config.virtual_chunk_containers or {}) if config else {}
    local = icechunk.containers_credentials(dict.fromkeys(prefixes))
    repo = icechunk.Repository.open(storage, authorize_virtual_chunk_access=local)
    store = repo.readonly_session("main").store
    opened: xr.Dataset = xr.open_zarr(store, group=group, consolidated=False, chunks={})
    return opened


def _write_repository(
    sample: Sample,
    path: Path,
    names: tuple[str, ...],
    chunks: tuple[int, ...],
    shards: tuple[int, ...] | None = None,
) -> None:
    session = create_repository(path).writable_session("main")
    group = zarr.create_group(session.store)
    hours = np.arange(sample.hours)
    time = group.create_array("time", data=hours, dimension_names=["time"])
    time.attrs["units"] = f"hours since {str(START)[:10]}"
    group.create_array("lat", data=LAT, dimension_names=["lat"])
    group.create_array("lon", data=LON, dimension_names=["lon"])
    arrays = {
        name: group.create_array(
            name,
            shape=(sample.hours, LAT.size, LON.size),
            dtype=np.int16 if name == "tp" else np.float32,
            chunks=chunks,
            shards=shards,
            compressors=ZstdCodec(level=3),
            fill_value=PACKING["_FillValue"] if name == "tp" else np.nan,
            dimension_names=DIMS,
            attributes=ATTRIBUTES[name],
        )
        for name in names
    }
    for start in range(0, sample.hours, TILES[0]):
        values = fields(start, TILES[0])
        for name, array in arrays.items():
            array[start : start + TILES[0]] = (
                _packed(values[name]) if name == "tp" else values[name]
            )
    session.commit("sample")


def _packed(values: Floats) -> npt.NDArray[np.int16]:
    scaled = (values - PACKING["add_offset"]) / PACKING["scale_factor"]
    return np.round(scaled).astype(np.int16)


def _rows(start: int, hours: int) -> pa.Table:
    """Cells as rows, sorted by time, latitude and longitude."""
    time = times(start, hours).astype("datetime64[us]")
    values = {name: pa.array(field.ravel()) for name, field in fields(start, hours).items()}
    columns = {
        "time": pa.array(np.repeat(time, CELLS_PER_HOUR), pa.timestamp("us", tz="UTC")),
        "lat": pa.array(np.tile(np.repeat(LAT, LON.size), hours)),
        "lon": pa.array(np.tile(LON, hours * LAT.size)),
    }
    return pa.table({**columns, **values})


def _write_rows(path: Path, start: int, hours: int) -> None:
    """Snappy, as Spark writes; a group of rows a day."""
    with pq.ParquetWriter(path, _rows(start, 1).schema, compression="snappy") as writer:
        for first in range(start, start + hours, DAY):
            rows = _rows(first, min(DAY, start + hours - first))
            writer.write_table(rows, row_group_size=rows.num_rows)


def _make_parquet(sample: Sample, path: Path) -> None:
    step = FILE_DAYS * DAY
    for start in range(0, sample.hours, step):
        _write_rows(path / f"{start:06d}.parquet", start, min(step, sample.hours - start))


def _make_files(sample: Sample, path: Path) -> None:
    hours = sample.hours_per_file
    for start in range(0, FILES * hours, hours):
        write_netcdf(dataset(start, hours, ("t2m", "tp")), path / f"{start:06d}.nc")


def write_netcdf(values: xr.Dataset, path: Path) -> None:
    """Deflated as model output is, a map to a chunk."""
    small: dict[str, Any] = {"zlib": True, "complevel": 1, "chunksizes": (1, LAT.size, LON.size)}
    since = {"units": f"hours since {str(START)[:10]}", "dtype": "int64"}
    encoding: dict[str, dict[str, Any]] = {
        "t2m": {**small, "_FillValue": None},  # as in the repository
        "time": since,
    }
    if "tp" in values:
        encoding["tp"] = {**small, "dtype": "int16", **PACKING}
    values.to_netcdf(path, engine="h5netcdf", encoding=encoding)


def _make_days(sample: Sample, path: Path) -> None:
    for number in range(EXTRA_DAYS):
        start = sample.hours + number * DAY
        _write_rows(path / f"{number:02d}.parquet", start, DAY)
        write_netcdf(dataset(start, DAY, ("t2m",)), path / f"{number:02d}.nc")


def _make_small_chunks(sample: Sample, path: Path) -> None:
    """Files of 10,000 chunks of one value each: 100,000 chunks for 30 million cells."""
    hours, cells = 10, 1000
    for number in range(max(1, sample.cells // 3_000_000)):
        with h5py.File(path / f"{number:06d}.nc", "w", libver="latest") as file:
            file["time"] = number * hours + np.arange(hours)
            file["cell"] = np.arange(cells)
            values = np.arange(hours * cells, dtype=np.float32).reshape(hours, cells)
            made = file.create_dataset("value", data=values, chunks=(1, 1))
            for axis, name in enumerate(("time", "cell")):
                file[name].make_scale(name)
                made.dims[axis].attach_scale(file[name])


def _make_virtual(sample: Sample, path: Path) -> None:
    write_virtual(list(paths_of(sample["files"])), path)


def paths_of(folder: Path, suffix: str = "nc") -> Iterator[Path]:
    yield from sorted(folder.glob(f"*.{suffix}"))


def write_virtual(files: list[Path], path: Path) -> None:
    """References to all chunks of some files, with the reference and VirtualiZarr."""
    config = icechunk.RepositoryConfig.default()
    prefix = f"file://{files[0].parent}/"
    store = icechunk.local_filesystem_store(str(files[0].parent))
    config.set_virtual_chunk_container(icechunk.VirtualChunkContainer(prefix, store))
    storage = icechunk.local_filesystem_storage(str(path))
    session = icechunk.Repository.create(storage, config).writable_session("main")
    registry = ObjectStoreRegistry({"file://": LocalStore()})
    with open_virtual_mfdataset(
        [f"file://{file}" for file in files],
        registry,
        parser=HDFParser(),
        combine="nested",
        concat_dim="time",
        coords="minimal",
        compat="override",
        loadable_variables=["time", "lat", "lon", "cell"],
    ) as found:
        found.vz.to_icechunk(session.store)
    session.commit("references")


MAKERS: dict[str, Callable[[Sample, Path], None]] = {
    "repo": lambda sample, path: _write_repository(sample, path, ("t2m", "u10", "tp"), TILES),
    "shards": lambda sample, path: _write_repository(sample, path, ("t2m",), TILES, (48, 180, 360)),
    "maps": lambda sample, path: _write_repository(sample, path, ("t2m",), MAPS),
    "parquet": _make_parquet,
    "files": _make_files,
    "virtual": _make_virtual,
    "small_chunks": _make_small_chunks,
    "days": _make_days,
}
