"""CSV and NetCDF files of the values that a picture or a curve shows."""

import csv
import io
from importlib.util import find_spec
from typing import Any

import numpy as np

from frazil.errors import InvalidInputError
from frazil.ids import SnapshotId
from frazil.web.axes import Axis, Coordinates
from frazil.web.explored import Explored
from frazil.web.http import readable_document
from frazil.web.previews import Preview

# Attributes that say how values are stored: here they are decoded.
_STORED = {"scale_factor", "add_offset", "_FillValue", "missing_value", "_Unsigned", "valid_range"}


def has_netcdf() -> bool:
    return find_spec("h5netcdf") is not None


def _require_numbers(found: Preview) -> np.ndarray[Any, np.dtype[np.float64]]:
    if found.values is None:
        raise InvalidInputError(f"values of type {found.dtype} are not numbers")
    return np.where(found.is_valid, found.values, np.nan)


def as_csv(found: Preview, name: str) -> str:
    """A line for each value, with its coordinates, or positions where there are none."""
    values = _require_numbers(found).astype(found.value_type)
    columns = [
        _labels(along, found.plan.positions[axis])
        for axis, along in zip(found.plan.axes, found.along, strict=True)
    ]
    header = io.StringIO()
    names = [found.axes[axis].name for axis in found.plan.axes]
    csv.writer(header, lineterminator="\n").writerow([*names, name])
    texts = np.where(np.isnan(values), "", values.astype(str))
    if len(columns) < 2:
        rows = zip(*columns, texts[0].tolist(), strict=True)
        return header.getvalue() + "".join(f"{','.join(row)}\n" for row in rows)
    down, across = columns
    return header.getvalue() + "".join(
        f"{row},{column},{value}\n"
        for row, line in zip(down, texts.tolist(), strict=True)
        for column, value in zip(across, line, strict=True)
    )


def _labels(along: Coordinates | None, positions: Any) -> list[str]:
    if along is None:
        return [str(each) for each in positions.tolist()]
    if along.texts is not None:
        return ['"' + each.replace('"', '""') + '"' if {",", '"', "\n"} & set(each) else each
                for each in along.texts]  # fmt: skip
    return [repr(each) for each in along.numbers.tolist()]


def as_netcdf(explored: Explored, snapshot: SnapshotId, found: Preview, name: str) -> bytes:
    """Decoded values and coordinates, in the order of the array. Needs the extra `ingest`."""
    if not has_netcdf():
        raise InvalidInputError("NetCDF needs the package h5netcdf: pip install 'frazil[ingest]'")
    import h5netcdf  # noqa: PLC0415 -- of the extra `ingest`, and slow to load

    values = _require_numbers(found).astype(found.value_type)
    data = io.BytesIO()
    with h5netcdf.File(data, "w", invalid_netcdf=False) as file:
        names = [_netcdf_name(found.axes[axis].name) for axis in found.plan.axes]
        file.dimensions = {
            each: len(found.plan.positions[axis])
            for each, axis in zip(names, found.plan.axes, strict=True)
        }
        for each, number, along in zip(names, found.plan.axes, found.along, strict=True):
            axis = found.axes[number]
            if along is not None and np.isfinite(along.numbers).any():
                variable = file.create_variable(each, (each,), data=along.numbers)
                _describe(variable, _coordinate_attributes(explored, snapshot, axis))
        flat = values if len(names) > 1 else values.reshape([len(values[0])][: len(names)])
        own = _netcdf_name(name)
        variable = file.create_variable(
            own if own not in names else f"{own}_values", tuple(names), data=flat, fillvalue=np.nan
        )
        _describe(variable, found.attributes)
    return data.getvalue()


def _coordinate_attributes(explored: Explored, snapshot: SnapshotId, axis: Axis) -> dict[str, Any]:
    if axis.path is None:
        return {}
    document = readable_document(explored.session(snapshot).node(axis.path).user_data) or {}
    return document.get("attributes") or {}


def _netcdf_name(name: str) -> str:
    """The name without what NetCDF does not allow in one."""
    kept = "".join(each if each.isalnum() or each in "_-." else "_" for each in name)[:100]
    return kept if kept[:1].isalpha() or kept[:1] == "_" else f"_{kept}"


def _describe(variable: Any, attributes: dict[str, Any]) -> None:
    for key, value in attributes.items():
        if key in _STORED or not key.isidentifier():
            continue
        if isinstance(value, str | int | float) and not isinstance(value, bool):
            variable.attrs[key] = value
