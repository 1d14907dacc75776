"""A part of one array, with the coordinates that belong to it."""

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt

from frazil.errors import InvalidInputError
from frazil.paths import ROOT, NodePath
from frazil.repo.session import Session
from frazil.spark.cf import Time, decode, plan_decoding, with_nan
from frazil.spark.description import ArrayDescription
from frazil.spark.index_selection import both, positions_at, to_index_selection
from frazil.spark.positions import Positions, resolve
from frazil.spark.selection import to_selection
from frazil.zarrstore.arrays import open_array, read_region


@dataclass(frozen=True, slots=True, eq=False)
class Selected:
    """What was chosen, before a chunk is read."""

    session: Session
    array: ArrayDescription
    positions: tuple[Positions, ...]  # along each dimension
    single: tuple[str, ...]  # dimensions of which one position was named: they can be left out

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(map(len, self.positions))

    @property
    def size(self) -> int:
        return prod(self.shape)

    def values(self, *, decoded: bool) -> npt.NDArray[Any]:
        """In all dimensions. Decoded as CF has it, with NaN and NaT for what is missing."""
        path = NodePath(self.array.path)
        runs = [slice(each.start, each.stop) for each in self.positions if isinstance(each, range)]
        if len(runs) == len(self.positions):
            stored = read_region(self.session, path, tuple(runs))
        else:
            array: Any = open_array(self.session, path)
            stored = np.asarray(array.oindex[tuple(map(np.asarray, self.positions))])
        return _decoded(self.array, stored) if decoded else stored

    def coordinates(self) -> dict[str, npt.NDArray[Any]]:
        """Decoded values along each dimension; positions where there is no coordinate."""
        found = {}
        for name, wanted in zip(self.array.dims, self.positions, strict=True):
            coordinate = _find_coordinate(self.session, self.array, name)
            numbers = np.asarray(wanted, dtype=np.int64)
            found[name] = (
                numbers
                if coordinate is None
                else _decoded(coordinate, _whole(self.session, coordinate))[numbers]
            )
        return found

    def squeezed(self, values: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Without the dimensions of which one position was named."""
        axes = tuple(k for k, name in enumerate(self.array.dims) if name in self.single)
        return values.squeeze(axes)


def describe(session: Session, path: NodePath) -> ArrayDescription:
    """Raises NodeNotFoundError, or InvalidInputError if it is a group."""
    array = open_array(session, path)
    names = getattr(array.metadata, "dimension_names", None) or (None,) * array.ndim
    return ArrayDescription(
        name=path.name,
        path=path.text,
        dims=tuple(name or f"dim_{k}" for k, name in enumerate(names)),
        shape=array.shape,
        chunks=array.shape,
        dtype=array.dtype,
        attrs=dict(array.attrs),
        fill_value=array.fill_value,
    )


def select(
    session: Session, path: NodePath, sel: Mapping[str, object], isel: Mapping[str, object]
) -> Selected:
    """Reads coordinates that are selected on, and nothing else."""
    array = describe(session, path)
    unknown = sorted({*sel, *isel} - {*array.dims})
    if unknown:
        raise InvalidInputError(
            f"{path} has no dimension {unknown[0]!r}; it has {', '.join(array.dims) or 'none'}"
        )
    labels = to_selection({name: _as_label(session, array, name, sel[name]) for name in sel})
    numbers = to_index_selection(isel)
    positions = []
    for name, size in zip(array.dims, array.shape, strict=True):
        wanted = positions_at(name, size, numbers.on(name))
        if labels.on(name):
            wanted = both(_by_label(session, array, name, labels.on(name), size), wanted)
        positions.append(wanted)
    single = tuple(
        name
        for name, count in zip(array.dims, map(len, positions), strict=True)
        if count == 1 and not isinstance(sel.get(name, isel.get(name, [])), slice | list)
    )
    return Selected(session, array, tuple(positions), single)


def _as_label(session: Session, array: ArrayDescription, name: str, given: object) -> object:
    """A year looks like a number; only the coordinate tells which it is."""
    coordinate = _find_coordinate(session, array, name)
    if coordinate is None or not isinstance(plan_decoding(coordinate), Time):
        return given
    match given:
        case slice():
            return slice(_as_text(given.start), _as_text(given.stop))
        case list():
            return [_as_text(each) for each in given]
        case _:
            return _as_text(given)


def _as_text(label: object) -> object:
    return str(label) if isinstance(label, int | float) else label


def _by_label(
    session: Session, array: ArrayDescription, name: str, wanted: Any, size: int
) -> Positions:
    coordinate = _find_coordinate(session, array, name)
    if coordinate is None:
        raise InvalidInputError(
            f"dimension {name!r} has no coordinate: choose by position, --isel {name}=0:{size}"
        )
    values = decode(plan_decoding(coordinate), _whole(session, coordinate))
    return resolve(name, values, wanted)


def _find_coordinate(
    session: Session, array: ArrayDescription, name: str
) -> ArrayDescription | None:
    """The array of that name in the same group, if it has that one dimension."""
    path = (NodePath(array.path).parent or ROOT).child(name)
    node = session.find_node(path)
    if node is None or node.array is None:
        return None
    found = describe(session, path)
    fits = found.dims == (name,) and found.shape == (array.shape[array.dims.index(name)],)
    return found if fits else None


def _whole(session: Session, array: ArrayDescription) -> npt.NDArray[Any]:
    return read_region(session, NodePath(array.path), (slice(None),))


def _decoded(array: ArrayDescription, stored: npt.NDArray[Any]) -> npt.NDArray[Any]:
    return with_nan(decode(plan_decoding(array), stored.reshape(-1))).reshape(stored.shape)


def texts_of(values: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Each value as a line of text has it; times as ISO, to the second where that says it all."""
    if values.dtype.kind == "M":
        whole = values.astype("datetime64[s]")
        exact = bool(((whole == values) | np.isnat(values)).all())
        return np.datetime_as_string(whole if exact else values)
    return np.array([str(each) for each in values.ravel()], dtype=object).reshape(values.shape)


def columns(selected: Selected) -> dict[str, npt.NDArray[Any]]:
    """One row for each value, with its coordinates before it."""
    values = selected.values(decoded=True)
    along = selected.coordinates()
    grid = np.meshgrid(*along.values(), indexing="ij") if along else []
    found = {name: each.ravel() for name, each in zip(along, grid, strict=True)}
    name = selected.array.name
    return found if name in found else {**found, name: values.ravel()}
