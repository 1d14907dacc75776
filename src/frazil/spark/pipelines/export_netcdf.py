"""A group as NetCDF4 files: one, or one for each part of a dimension, each written by one task."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import pyarrow as pa

from frazil.errors import AlreadyExistsError, InvalidInputError
from frazil.paths import NodePath
from frazil.repo.session import Session
from frazil.spark.pipelines.boxes import Cut
from frazil.spark.pipelines.export_zarr import COPIED
from frazil.spark.progress import Counter
from frazil.spark.sources.errors import source_errors_as_ours
from frazil.zarrstore.store import SessionStore

if TYPE_CHECKING:
    import xarray as xr

# Of what Zarr knows about an array, NetCDF takes these; chunks and compressors differ.
_ENCODING = ("dtype", "scale_factor", "add_offset", "_FillValue", "units", "calendar")


@dataclass(frozen=True, slots=True)
class NetcdfPlan:
    """File by file; without `split` there is one, and `target` is its name."""

    target: str
    group: NodePath
    variables: tuple[str, ...] | None
    dims: tuple[str, ...]
    cut: Cut

    def file(self, number: int) -> Path:
        whole = Path(self.target)
        return whole / f"part-{number:05d}.nc" if self.dims else whole


@dataclass(frozen=True, slots=True)
class WriteFiles:
    """What executors do; picklable."""

    base: Session  # read-only
    plan: NetcdfPlan
    counter: Counter

    def __call__(self, tasks: range) -> Iterator[pa.RecordBatch]:
        for task in tasks:
            path = self.plan.file(task)
            parts = dict(zip(self.plan.dims, self.plan.cut.region(task), strict=True))
            with source_errors_as_ours(str(path)):
                chosen = open_dataset(self.base, self.plan.group, self.plan.variables).isel(parts)
                _write(chosen, path)
            size = path.stat().st_size
            self.counter.add(size)
            yield pa.RecordBatch.from_pylist([{"objects": 1, "bytes": size}], COPIED)


def plan_netcdf(
    session: Session,
    group: NodePath,
    target: str,
    *,
    variables: Sequence[str] | None,
    split: Mapping[str, int],
    overwrite: bool,
) -> NetcdfPlan:
    if "://" in target:
        raise InvalidInputError("NetCDF files are written to a folder that all executors see")
    whole = Path(target).absolute()
    if whole.exists() and not overwrite:
        raise AlreadyExistsError(f"there is already {target}")
    if whole.is_dir() and not split:
        raise AlreadyExistsError(f"there is a folder at {target}: it is not replaced by a file")
    if whole.is_file() and split:
        raise AlreadyExistsError(f"there is a file at {target}: it is not replaced by a folder")
    names = None if variables is None else tuple(variables)
    sizes = {str(dim): n for dim, n in open_dataset(session, group, names).sizes.items()}
    for dim, length in split.items():
        if dim not in sizes or length < 1:
            raise InvalidInputError(
                f"split is {dim}={length}; the dimensions are {', '.join(sizes)}, lengths above 0"
            )
    if split:
        whole.mkdir(parents=True, exist_ok=True)
    cut = Cut(tuple(sizes[dim] for dim in split), tuple(split.values()))
    return NetcdfPlan(str(whole), group, names, tuple(split), cut)


def remove_others(plan: NetcdfPlan) -> None:
    """Parts of an earlier export to the same folder that this one has no use for."""
    if plan.dims:
        made = {plan.file(number) for number in range(len(plan.cut))}
        for path in Path(plan.target).glob("part-*.nc"):
            if path not in made:
                path.unlink()


def open_dataset(
    session: Session, group: NodePath, variables: tuple[str, ...] | None
) -> "xr.Dataset":
    import xarray as xr  # noqa: PLC0415 -- of the extra `ingest`, and slow to load

    opened: xr.Dataset = xr.open_dataset(
        SessionStore(session, read_only=True),  # type: ignore[arg-type]  # stubs know only paths
        engine="zarr",
        group=group.text.strip("/") or None,
        chunks=None,
        cache=False,
        consolidated=False,
        zarr_format=3,
    )
    return opened if variables is None else opened[list(variables)]


def _write(dataset: "xr.Dataset", path: Path) -> None:
    """Under its name once it is complete."""
    for variable in dataset.variables.values():
        kept: dict[Any, Any] = {
            k: variable.encoding[k] for k in _ENCODING if k in variable.encoding
        }
        variable.encoding = kept
    made = path.with_name(f".{path.name}.{uuid4().hex}")
    try:
        dataset.to_netcdf(made, engine="h5netcdf")
        made.replace(path)
    finally:
        made.unlink(missing_ok=True)
