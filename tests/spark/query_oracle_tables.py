"""Random repositories, and the rows that their tables must have.

Values are made with numpy and decoded here by the rules of docs/spark-read.md, without frazil's
Spark code: what these rows say is what a query must find.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import product
from math import inf, isnan, prod
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import zarr

from frazil.api import Repository, local_filesystem_storage

TEXTS = (
    "",
    "a",
    "ab",
    "abc",
    "b",
    "B",
    "ä",
    "løv",
    "日本",
    "a%b",
    "a_b",
    "it's",
    "x\\y",
    "🌊",
    " z ",
)
_EPOCHS = ("1950-01-01", "1969-12-31", "2000-02-29", "2024-03-10", "1900-01-01")
_UNITS = {"seconds": 1, "minutes": 60, "hours": 3600, "days": 86400}
_KINDS = {"i1": "int", "i2": "int", "i4": "int", "i8": "int", "u1": "int", "u2": "int", "u4": "int",
          "u8": "decimal", "f2": "float", "f4": "float", "f8": "double", "b1": "bool",
          "text": "text", "U4": "text", "M8": "time", "cf": "time", "m8": "interval",
          "S3": "bytes"}  # fmt: skip
_ARROW = {"u1": pa.int16(), "u2": pa.int32(), "u4": pa.int64(), "u8": pa.decimal128(20, 0),
          "f2": pa.float32()}  # fmt: skip
_DIMENSION_NAMES = ("time", "lat", "lon", "level", "name", "x", "Y Z", "member")
_VARIABLE_NAMES = ("t2m", "rain", "q", "a.b")

type Stored = npt.NDArray[Any]


@dataclass
class Array:
    """An array as it is stored: rows are made of it, and so is the Zarr array."""

    name: str
    code: str  # a dtype, or `text`, or `cf` for numbers with units of time
    dims: tuple[str, ...]
    stored: Stored
    chunks: tuple[int, ...]
    shards: tuple[int, ...] | None
    fill: Any
    attrs: dict[str, Any]
    unwritten: list[tuple[slice, ...]] = field(default_factory=list)

    @property
    def is_scaled(self) -> bool:
        return self.code != "cf" and not {"scale_factor", "add_offset"}.isdisjoint(self.attrs)


@dataclass(frozen=True)
class Column:
    """A column of a table, as queries may use it."""

    name: str
    kind: str  # int, decimal, float, double, bool, time, text, interval, bytes
    is_dimension: bool
    values: tuple[Any, ...]  # some that are there, for literals; without NULL
    may_be_nan: bool
    is_large: bool  # sums of integers, or floors of floats, may not fit a BIGINT


@dataclass(frozen=True)
class Version:
    """A version of a table: options that read it, and its rows."""

    options: Mapping[str, str]
    columns: tuple[Column, ...]
    rows: pa.Table


@dataclass(frozen=True)
class Made:
    path: Path
    versions: tuple[Version, ...]
    told: str  # how it was made, for people


def make_repository(rng: np.random.Generator, path: Path) -> Made:
    """A repository with two or three commits, each with a tag, read in several ways."""
    arrays = _make_arrays(rng)
    repository = Repository.create(local_filesystem_storage(path))
    versions = []
    decode = bool(rng.random() < 0.8)
    small = {"partitionBytes": str(rng.choice([1, 200, 2000]))} if rng.random() < 0.4 else {}
    if rng.random() < 0.2:
        small["batchRows"] = str(rng.choice([1, 3, 10]))
    count = int(rng.integers(2, 4))
    told = [_tell(arrays)]
    for k in range(count):
        if k:
            told.append(_change(rng, arrays))
        with repository.transaction("main", message=f"commit {k}") as store:
            group = zarr.group(store)
            group.attrs["commit"] = k  # so that each changes something
            _write(group, arrays, first=k == 0)
        snapshot = repository.lookup_branch("main")
        repository.create_tag(f"v{k}", snapshot)
        pinned = {"tag": f"v{k}"} if rng.random() < 0.5 else {"snapshot": snapshot}
        options = ({} if k == count - 1 else pinned) | small
        isel = _some_positions(rng, arrays) if rng.random() < 0.15 else {}
        if isel:
            options["isel"] = json.dumps(isel)
        versions.append((options, *_rows(arrays, decode=decode, isel=isel)))
    if not decode:
        versions = [({**options, "decodeCf": "false"}, c, r) for options, c, r in versions]
    made = tuple(Version({"path": str(path), **o}, c, r) for o, c, r in reversed(versions))
    told += [f"options {each.options}" for each in made]
    return Made(path, made, "\n".join(told))


def _some_positions(rng: np.random.Generator, arrays: list[Array]) -> dict[str, Any]:
    """A selection by position, as the option `isel` has it."""
    array = arrays[-1]
    if not array.stored.size or not array.dims:
        return {}
    k = int(rng.integers(len(array.dims)))
    size = array.stored.shape[k]
    if rng.random() < 0.5:
        start, stop = sorted(int(n) for n in rng.integers(0, size + 1, 2))
        return {array.dims[k]: {"start": start, "stop": stop}}
    some = rng.choice(size, int(rng.integers(1, size + 1)), replace=False)
    return {array.dims[k]: sorted(int(n) for n in some)[:50]}


# Arrays


def _make_arrays(rng: np.random.Generator) -> list[Array]:
    rank = int(rng.choice([0, 1, 2, 3, 4], p=[0.02, 0.23, 0.35, 0.3, 0.1]))
    names = [str(each) for each in rng.choice(_DIMENSION_NAMES, rank, replace=False)]
    most = {0: 1, 1: 60, 2: 14, 3: 6, 4: 4}[rank]
    sizes = {name: int(rng.integers(1, most + 1)) for name in names}
    if rank and rng.random() < 0.04:
        sizes[names[0]] = 0
    if rank == 1 and rng.random() < 0.06:
        sizes[names[0]] = 17_000  # more than come with the description of a table
    coordinates = [_make_coordinate(rng, name, sizes[name]) for name in names]
    chosen = rng.choice(_VARIABLE_NAMES, int(rng.integers(1, 4)), replace=False)
    variables = [_make_variable(rng, str(name), sizes) for name in chosen]
    return [array for array in coordinates if array is not None] + variables


def _make_coordinate(rng: np.random.Generator, name: str, size: int) -> Array | None:
    codes = ["i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f2", "f4", "f8", "b1", "text", "U4",
             "M8", "cf", "m8", "none"]  # fmt: skip
    weights = np.array([1, 1, 2, 2, 1, 1, 1, 2, 1, 4, 6, 1, 4, 2, 4, 8, 1, 3])
    code = str(rng.choice(codes, p=weights / weights.sum()))
    if code == "none":
        return None
    values = _pattern(rng, _make_values(rng, code, size), code)
    return _make_array(rng, name, code, (name,), values, with_scale=rng.random() < 0.1)


def _pattern(rng: np.random.Generator, values: Stored, code: str) -> Stored:
    how = str(rng.choice(["up", "down", "any", "twice", "equal"], p=[0.4, 0.25, 0.2, 0.1, 0.05]))
    if not len(values):
        return values
    if how == "twice":
        return values[rng.integers(0, min(3, len(values)), len(values))]
    if how == "equal":
        return np.repeat(values[:1], len(values))
    if how == "any":
        return values
    ordered = np.sort(values)
    if code in {"f2", "f4", "f8"} and rng.random() < 0.8:
        ordered = np.sort(values[~np.isnan(values)])
        ordered = np.concatenate([ordered, np.full(len(values) - len(ordered), 0.5, values.dtype)])
        ordered = np.sort(ordered)
    return ordered if how == "up" else ordered[::-1].copy()


def _make_variable(rng: np.random.Generator, name: str, sizes: Mapping[str, int]) -> Array:
    dims = list(sizes)
    if rng.random() < 0.25:
        dims = [str(each) for each in rng.permutation(dims)] if dims else []
    codes = ["i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f2", "f4", "f8", "b1", "text", "M8",
             "cf", "S3"]  # fmt: skip
    weights = np.array([1, 3, 2, 2, 1, 1, 1, 1, 1, 6, 4, 1, 2, 1, 1, 1])
    code = str(rng.choice(codes, p=weights / weights.sum()))
    shape = tuple(sizes[dim] for dim in dims)
    values = _make_values(rng, code, prod(shape)).reshape(shape)
    return _make_array(rng, name, code, tuple(dims), values, with_scale=rng.random() < 0.3)


def _make_values(rng: np.random.Generator, code: str, count: int) -> Stored:
    if code in {"text", "U4"}:
        dtype = np.dtypes.StringDType() if code == "text" else np.dtype("U4")
        return np.array(rng.choice(TEXTS, count), dtype=dtype)
    if code == "S3":
        return rng.choice([b"ab", b"abc", b"x"], count).astype("S3")
    if code == "b1":
        return rng.random(count) < 0.5
    if code in {"M8", "m8", "cf"}:
        return _make_times(rng, code, count)
    return _make_numbers(rng, code, count)


def _make_times(rng: np.random.Generator, code: str, count: int) -> Stored:
    if code == "m8":
        return rng.integers(-50, 50, count).astype("m8[h]").astype("m8[s]")
    if code == "cf":
        return rng.integers(-300, 300, count).astype(str(rng.choice(["i2", "i4", "i8", "f8"])))
    values = rng.integers(-40_000, 480_000, count).astype("M8[h]")
    values[rng.random(count) < 0.05] = np.datetime64("NaT", "h")
    return values.astype(f"M8[{rng.choice(['s', 'ms', 'us'])}]")


def _make_numbers(rng: np.random.Generator, code: str, count: int) -> Stored:
    if code[0] == "f":
        values = rng.integers(-720, 720, count) / 8.0
        values[rng.random(count) < 0.08] = -0.0
        values[rng.random(count) < 0.08] = np.nan
        return values.astype(code)
    limits = np.iinfo(code)
    low, high = max(limits.min, -1000), min(limits.max, 1000)
    whole = rng.integers(low, high, count, endpoint=True).astype(code)
    if rng.random() < 0.15:
        at = rng.random(count) < 0.3
        whole[at] = rng.choice(np.array([limits.min, limits.max], dtype=code), int(at.sum()))
    return whole


def _make_array(
    rng: np.random.Generator,
    name: str,
    code: str,
    dims: tuple[str, ...],
    values: Stored,
    *,
    with_scale: bool,
) -> Array:
    chunks = tuple(int(rng.integers(max(1, n // 40), max(1, n) + 1)) for n in values.shape)
    shards = None
    if values.ndim and rng.random() < 0.15:
        shards = tuple(int(c * rng.integers(1, 3)) for c in chunks)
    attrs: dict[str, Any] = {}
    numeric = code[0] in "iuf" or code == "cf"
    if code == "cf":
        unit = str(rng.choice(list(_UNITS)))
        clock = str(rng.choice(["", " 00:00:00", "T12:30:00"]))
        attrs["units"] = f"{unit} since {rng.choice(_EPOCHS)}{clock}"
        attrs["calendar"] = str(rng.choice(["standard", "proleptic_gregorian"]))
    elif numeric and with_scale:
        attrs["scale_factor"] = float(rng.choice([0.5, 0.25, 2.0, -1.0, 0.1]))
        if rng.random() < 0.7:
            attrs["add_offset"] = float(rng.choice([0.0, 100.0, -3.5]))
    fill: Any = _default_fill(values.dtype)
    if numeric and values.size:
        some = values.reshape(-1)[int(rng.integers(values.size))].item()
        if not _is_nan(some) and rng.random() < 0.3:
            attrs[str(rng.choice(["_FillValue", "missing_value"]))] = some
        if rng.random() < 0.25:
            fill = values.reshape(-1)[int(rng.integers(values.size))].item()
    return Array(name, code, dims, values, chunks, shards, fill, attrs, _gaps(rng, values, chunks))


def _is_nan(value: Any) -> bool:
    return isinstance(value, float) and isnan(value)


def _default_fill(dtype: np.dtype[Any]) -> Any:
    if dtype.kind in "mM":
        return np.array("NaT", dtype=dtype)[()]
    if dtype.kind in "TU":
        return ""
    return b"" if dtype.kind == "S" else dtype.type(0).item()


def _gaps(rng: np.random.Generator, values: Stored, chunks: tuple[int, ...]) -> list[Any]:
    """Chunks that are never written: their cells have the fill value."""
    if rng.random() < 0.6 or values.size > 10_000:
        return []
    starts = product(*(range(0, n, c) for n, c in zip(values.shape, chunks, strict=True)))
    boxes = [tuple(slice(s, s + c) for s, c in zip(at, chunks, strict=True)) for at in starts]
    return [box for box in boxes if rng.random() < 0.3]


# Repositories


def _write(group: "zarr.Group", arrays: list[Array], *, first: bool) -> None:
    for array in arrays:
        if first:
            written = group.create_array(
                array.name,
                shape=array.stored.shape,
                chunks=array.chunks,
                shards=array.shards,
                dtype=array.stored.dtype,
                fill_value=array.fill,
                dimension_names=array.dims or None,
                compressors=None,
                attributes=array.attrs,
            )
        else:
            found = group[array.name]
            assert isinstance(found, zarr.Array)
            written = found
            if written.shape != array.stored.shape:
                written.resize(array.stored.shape)
        for box in array.unwritten:
            array.stored[box] = array.fill
        if array.stored.size:
            written[...] = array.stored


def _change(rng: np.random.Generator, arrays: list[Array]) -> str:
    """Changes values of a variable, or makes a dimension longer."""
    variables = [array for array in arrays if array.dims != (array.name,)]
    array = variables[int(rng.integers(len(variables)))]
    for each in arrays:
        each.unwritten = []
    if array.dims and rng.random() < 0.5:
        dim = array.dims[int(rng.integers(len(array.dims)))]
        more = int(rng.integers(1, 4))
        for each in arrays:
            if dim in each.dims:
                _lengthen(rng, each, each.dims.index(dim), more)
        return f"{dim} has {more} more positions"
    if array.stored.size:
        box = tuple(slice(0, int(rng.integers(1, n + 1))) for n in array.stored.shape)
        array.stored = array.stored.copy()  # the rows made before share its memory
        shape = tuple(each.stop for each in box)
        array.stored[box] = _like(rng, array, prod(shape)).reshape(shape)
    return f"{array.name} has other values"


def _lengthen(rng: np.random.Generator, array: Array, axis: int, more: int) -> None:
    shape = list(array.stored.shape)
    shape[axis] = more
    added = _like(rng, array, prod(shape)).reshape(shape)
    array.stored = np.concatenate([array.stored, added], axis=axis)


def _like(rng: np.random.Generator, array: Array, count: int) -> Stored:
    return _make_values(rng, array.code, count).astype(array.stored.dtype)


def _tell(arrays: list[Array]) -> str:
    lines = [
        f"{a.name}{a.dims}: {a.stored.dtype} {a.stored.shape} chunks {a.chunks} shards {a.shards}"
        f" fill {a.fill!r} {a.attrs} gaps {len(a.unwritten)}"
        + (f" {a.stored.tolist()}" if a.stored.size <= 20 else "")
        for a in arrays
    ]
    return "\n".join(lines)


# Rows


def _rows(
    arrays: list[Array], *, decode: bool, isel: Mapping[str, Any]
) -> tuple[tuple[Column, ...], pa.Table]:
    by_name = {array.name: array for array in arrays}
    variables = sorted((a for a in arrays if a.dims != (a.name,)), key=lambda a: a.name)
    dims = variables[0].dims
    sizes = dict(zip(dims, variables[0].stored.shape, strict=True))
    columns, data = [], {}
    kept = np.ones(prod(sizes.values()), dtype=bool)
    for k, dim in enumerate(dims):
        found = by_name.get(dim)
        own = pa.array(np.arange(sizes[dim])) if found is None else _decoded(found, decode=decode)
        inner = prod(list(sizes.values())[k + 1 :])
        at = np.arange(prod(sizes.values())) // inner % max(1, sizes[dim])
        data[dim] = own.take(pa.array(at))
        kept &= _is_selected(at, isel.get(dim))
        columns.append(_column(dim, found, own, decode=decode))
    for variable in variables:
        turned = [variable.dims.index(dim) for dim in dims]
        flat = variable.stored.transpose(turned).reshape(-1)
        data[variable.name] = _decoded(variable, decode=decode, stored=flat)
        columns.append(_column(variable.name, variable, data[variable.name], decode=decode))
    return tuple(columns), pa.table(data).filter(pa.array(kept))


def _is_selected(at: npt.NDArray[np.int64], wanted: Any) -> npt.NDArray[np.bool_]:
    match wanted:
        case {"start": int(start), "stop": int(stop)}:
            return (at >= start) & (at < stop)
        case list():
            return np.isin(at, wanted)
    return np.ones(len(at), dtype=bool)


def _column(name: str, array: Array | None, values: pa.Array, *, decode: bool) -> Column:
    kind = "int" if array is None else _kind(array, decode=decode)
    is_dimension = array is None or array.dims == (name,)
    some = values.drop_null()[:400].unique().to_pylist()[:40]
    is_float = kind in {"float", "double"}
    nan = is_float and not decode
    most = {"int": 1e4, "float": 1e15, "double": 1e15}.get(kind, inf)
    large = most < inf and any(abs(n) > most for n in values.drop_null().to_pylist())
    return Column(name, kind, is_dimension, tuple(some), nan, large)


def _kind(array: Array, *, decode: bool) -> str:
    if array.code == "cf" and not decode:
        return _KINDS[array.stored.dtype.str[1:]]
    return "double" if array.is_scaled and decode else _KINDS[array.code]


def _decoded(array: Array, *, decode: bool, stored: Stored | None = None) -> pa.Array:
    values = array.stored.reshape(-1) if stored is None else stored
    null = _is_missing(array, values) if decode else _is_nat(values)
    if decode and array.code == "cf":
        return _times(array, values, null)
    if decode and array.is_scaled:
        scale, offset = array.attrs["scale_factor"], array.attrs.get("add_offset", 0.0)
        return pa.array(values.astype("f8") * scale + offset, mask=null)
    if values.dtype.kind in "TUS":
        text = pa.binary() if array.code == "S3" else pa.string()
        return pa.array(values.astype(object), type=text)
    if values.dtype.kind == "M":
        return _instants(values.astype("M8[us]").view("i8"), null)
    if values.dtype.kind == "m":
        return pa.array(values.astype("m8[us]"), mask=null)
    plain = pa.array(values, mask=null)
    code = values.dtype.str[1:]
    return plain.cast(_ARROW[code]) if code in _ARROW else plain


def _is_nat(values: Stored) -> npt.NDArray[np.bool_]:
    return np.isnat(values) if values.dtype.kind in "mM" else np.zeros(len(values), dtype=bool)


def _is_missing(array: Array, values: Stored) -> npt.NDArray[np.bool_]:
    null = _is_nat(values)
    missing = [array.attrs.get("_FillValue"), array.attrs.get("missing_value")]
    if values.dtype.kind in "iuf" and array.fill:
        missing.append(array.fill)
    for each in missing:
        if each is not None and not _is_nan(each):
            null |= values == np.array(each).astype(values.dtype)
    return null | np.isnan(values) if values.dtype.kind == "f" else null


def _times(array: Array, values: Stored, null: npt.NDArray[np.bool_]) -> pa.Array:
    unit, _, since = array.attrs["units"].split(" ", 2)
    epoch = np.datetime64(since.replace(" ", "T"), "us").view("i8")
    steps = np.where(null, 0, values).astype("i8") * _UNITS[unit] * 1_000_000
    return _instants(steps + epoch, null)


def _instants(micros: Stored, null: npt.NDArray[np.bool_]) -> pa.Array:
    return pa.array(micros, mask=null).view(pa.timestamp("us", tz="UTC"))
