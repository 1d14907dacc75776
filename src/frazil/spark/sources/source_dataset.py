"""Undecoded xarray datasets: their description, slabs of values, and lazy variables."""

import hashlib
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from frazil.errors import InvalidInputError
from frazil.spark.sources.source_types import SourceDescription, VariableDescription

if TYPE_CHECKING:  # an extra, and slow to load
    import xarray as xr

TEXT = np.dtype(object)
_STEP_SCALARS = ("valid_time",)  # scalars of cfgrib that differ from step to step

type Key = tuple[int | slice, ...]


def describe_dataset(
    dataset: "xr.Dataset", path: str, *, concat_dims: tuple[str, ...], only: Iterable[str] | None
) -> SourceDescription:
    """Describes the variables named by `only` (None: all), and the coordinates that they use."""
    names = _select(dataset, path, only)
    return SourceDescription(
        path=path,
        attrs=dict(dataset.attrs),
        variables={
            name: _describe_variable(dataset.variables[name], name, path, concat_dims)
            for name in names
        },
    )


def read_slab(
    dataset: "xr.Dataset", name: str, selection: tuple[slice, ...]
) -> npt.NDArray[np.generic]:
    """Raw values in native byte order; text as an object array of `str`."""
    values: npt.NDArray[np.generic] = np.asarray(dataset.variables[name][selection].values)
    return normalize(values)


def join_characters(dataset: "xr.Dataset") -> "xr.Dataset":
    """Converts NetCDF's arrays of characters to text, without their last dimension. Lazy."""
    import xarray as xr  # noqa: PLC0415 -- of the extra `ingest`, and slow to load

    names = [name for name, each in dataset.variables.items() if each.dtype == "S1" and each.ndim]
    if not names:
        return dataset
    joined = xr.decode_cf(
        dataset[names],
        concat_characters=True,
        mask_and_scale=False,
        decode_times=False,
        decode_timedelta=False,
        decode_coords=False,
    )
    return dataset.drop_vars(names).assign({name: joined.variables[name] for name in names})


def expand_dims(
    dataset: "xr.Dataset", dims: tuple[str, ...], *, always: bool, unstacked: tuple[str, ...] = ()
) -> "xr.Dataset":
    """Adds a first dimension of length one for each of `dims` that is a scalar coordinate.

    If `always`, also for those that the dataset does not have. Variables without a grid, and
    those named by `unstacked`, do not get it.
    """
    for dim in reversed(dims):
        is_scalar = dim in dataset.variables and dataset.variables[dim].ndim == 0
        if dim in dataset.sizes or not (is_scalar or always):
            continue
        kept = [
            name
            for name, each in dataset.data_vars.items()
            if name in unstacked or (each.ndim < 2 and name not in {dim, *_STEP_SCALARS})
        ]
        fields = dataset.drop_vars(kept)
        fields = (fields.set_coords(dim) if is_scalar else fields).expand_dims(dim)
        dataset = fields.assign(dataset[kept].data_vars).reset_coords()
    return dataset


def normalize(values: npt.NDArray[np.generic]) -> npt.NDArray[np.generic]:
    """Converts values to the form that ingest stores: native byte order, text as `str` objects."""
    if values.dtype.kind in "SUOT":
        flat = [_text(item) for item in values.reshape(-1).tolist()]
        text = np.empty(len(flat), dtype=object)
        text[:] = flat
        return text.reshape(values.shape)
    return values.astype(values.dtype.newbyteorder("="), copy=False)


def digest(values: npt.NDArray[np.generic]) -> bytes:
    """Fingerprint of dtype, shape and values. NaNs of one bit pattern are equal."""
    hashed = hashlib.sha256(f"{values.dtype.str} {values.shape} ".encode())
    if values.dtype == TEXT:
        for item in values.reshape(-1).tolist():
            raw = str(item).encode()
            hashed.update(len(raw).to_bytes(8, "little") + raw)
    else:
        hashed.update(np.ascontiguousarray(values).tobytes())
    return hashed.digest()


def _select(dataset: "xr.Dataset", path: str, only: Iterable[str] | None) -> list[str]:
    """Names of the wanted variables, their coordinates, bounds and grid mappings."""
    everything = [str(name) for name in dataset.variables]
    if only is None:
        return everything
    wanted = set(only)
    missing = sorted(wanted.difference(everything))
    if missing:
        raise InvalidInputError(
            f"{path}: no variable {', '.join(map(repr, missing))};"
            f" there is {', '.join(sorted(everything))}",
            kind="bad-metadata",
        )
    while more := _companions(dataset, wanted) - wanted:
        wanted |= more
    return [name for name in everything if name in wanted]


def _companions(dataset: "xr.Dataset", names: set[str]) -> set[str]:
    found: set[str] = set()
    for name in names:
        variable = dataset.variables[name]
        found.update(str(dim) for dim in variable.dims)
        for key in ("coordinates", "bounds", "grid_mapping"):
            found.update(str(variable.attrs.get(key, "")).split())
    return found & {str(name) for name in dataset.variables}


def _describe_variable(
    variable: "xr.Variable", name: str, path: str, concat_dims: tuple[str, ...]
) -> VariableDescription:
    dims = tuple(str(dim) for dim in variable.dims)
    chunks = variable.encoding.get("shards") or variable.encoding.get("chunks")
    chunks = chunks or variable.encoding.get("chunksizes")
    values, mark = None, None
    if dims == (name,):
        values = normalize(np.asarray(variable.values))
    elif not set(concat_dims) <= set(dims):
        mark = digest(normalize(np.asarray(variable.values)))
    return VariableDescription(
        name=name,
        dims=dims,
        shape=tuple(int(length) for length in variable.shape),
        dtype=_stored_dtype(variable.dtype, name, path),
        attrs=dict(variable.attrs),
        chunks=tuple(int(length) for length in chunks) if chunks else None,
        values=values,
        digest=mark,
    )


def _stored_dtype(dtype: np.dtype[np.generic], name: str, path: str) -> np.dtype[np.generic]:
    if dtype.kind in "SUOT":
        return TEXT
    if dtype.kind in "biufc" and dtype.itemsize <= np.dtype(np.complex128).itemsize:
        return dtype.newbyteorder("=")
    raise InvalidInputError(
        f"{path}: variable {name!r} has type {dtype}, which cannot be ingested",
        kind="invalid-array-metadata",
    )


def _text(item: object) -> str:
    if isinstance(item, bytes):
        return item.rstrip(b"\0").decode("utf-8", "replace")
    return "" if item is None else str(item)


def lazy_variable(
    dims: tuple[str, ...],
    shape: tuple[int, ...],
    dtype: np.dtype[Any],
    read: Callable[[Key], npt.NDArray[Any]],
    attrs: Mapping[str, object],
) -> "xr.Variable":
    """Makes a variable that is read on access: `read` gets an integer or a slice per dimension."""
    import xarray as xr  # noqa: PLC0415 -- of the extra `ingest`, and slow to load
    from xarray.backends import BackendArray  # noqa: PLC0415 -- see above
    from xarray.core import indexing  # noqa: PLC0415 -- see above

    class Values(BackendArray):
        def __init__(self) -> None:
            self.shape = shape
            self.dtype = dtype

        def __getitem__(self, key: indexing.ExplicitIndexer) -> Any:
            support = indexing.IndexingSupport.BASIC
            return indexing.explicit_indexing_adapter(key, shape, support, read)

    return xr.Variable(dims, indexing.LazilyIndexedArray(Values()), dict(attrs))
