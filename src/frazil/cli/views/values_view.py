"""Values and descriptions of arrays, in words and as JSON."""

import csv
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from frazil.cli.output import print_json
from frazil.cli.repositories import chosen_version, open_repository
from frazil.describe.units import format_size
from frazil.engine.files.virtual_access import NO_AUTHORIZATION
from frazil.engine.session.session import Session
from frazil.errors import AlreadyExistsError, InvalidInputError
from frazil.format.chunk_refs import RefKind
from frazil.paths import ROOT, NodePath
from frazil.spark.runtime.access import AccessText, parse_access
from frazil.spark.table.cf import Time, decode, plan_decoding, with_nan
from frazil.spark.table.description import ArrayDescription
from frazil.spark.table.documents import decode_fill
from frazil.spark.table.selection import (
    Positions,
    intersect,
    positions_at,
    resolve,
    to_index_selection,
    to_selection,
)
from frazil.zarrstore.arrays import open_array, open_group, read_region, write_region

# A part of one array, with the coordinates that belong to it.


@dataclass(frozen=True, slots=True, eq=False)
class Selected:
    """A selection of an array, before a chunk is read."""

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
        """Values of all dimensions; decoded ones have NaN and NaT for missing values."""
        path = NodePath(self.array.path)
        runs = [slice(each.start, each.stop) for each in self.positions if isinstance(each, range)]
        if len(runs) == len(self.positions):
            stored = read_region(self.session, path, tuple(runs))
        else:
            array: Any = open_array(self.session, path)
            stored = np.asarray(array.oindex[tuple(map(np.asarray, self.positions))])
        return _decode(self.array, stored) if decoded else stored

    def coordinates(self) -> dict[str, npt.NDArray[Any]]:
        """Decoded values along each dimension; positions where there is no coordinate."""
        found = {}
        for name, wanted in zip(self.array.dims, self.positions, strict=True):
            coordinate = _find_coordinate(self.session, self.array, name)
            numbers = np.asarray(wanted, dtype=np.int64)
            found[name] = (
                numbers
                if coordinate is None
                else _decode(coordinate, _read_whole(self.session, coordinate))[numbers]
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
            wanted = intersect(_by_label(session, array, name, labels.on(name), size), wanted)
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
    values = decode(plan_decoding(coordinate), _read_whole(session, coordinate))
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


def _read_whole(session: Session, array: ArrayDescription) -> npt.NDArray[Any]:
    return read_region(session, NodePath(array.path), (slice(None),))


def _decode(array: ArrayDescription, stored: npt.NDArray[Any]) -> npt.NDArray[Any]:
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


def open_session(
    repo: str,
    branch: str | None,
    tag: str | None,
    snapshot: str | None,
    authorize: Sequence[str],
) -> Session:
    """Opens a session for reading; `authorize` holds values such as file:///data/=local."""
    repository = open_repository(repo)
    version = chosen_version(repository, branch=branch, tag=tag, snapshot=snapshot)
    words = dict(one.rpartition("=")[::2] for one in authorize)
    access = parse_access(AccessText(json.dumps(words))) if words else NO_AUTHORIZATION
    return repository.reopened(access=access).readonly_session(version)


def print_group(session: Session, path: NodePath) -> None:
    print_json(json.loads(session.node(path).user_data).get("attributes", {}))


def print_values(chosen: Selected, *, plain: bool, as_json: bool) -> None:
    """Values with their coordinates, or, if `plain`, values only, separated by tabs."""
    values = chosen.values(decoded=True)
    if as_json:
        along = chosen.coordinates()
        print_json(
            {
                "path": chosen.array.path,
                "dimension_names": list(chosen.array.dims),
                "coords": {name: _plain(each) for name, each in along.items()},
                "values": _plain(values),
            }
        )
        return
    for line in _lines(chosen.squeezed(values)) if plain else _labelled(chosen, values):
        print(line)


def _lines(values: npt.NDArray[Any]) -> list[str]:
    """A line is a row of the last dimension; an empty one stands between planes."""
    texts = texts_of(values)
    if texts.ndim < 2:
        return ["\t".join(np.atleast_1d(texts))]
    lines = list[str]()
    for plane in texts.reshape(-1, *texts.shape[-2:]):
        if lines:
            lines.append("")
        lines += ["\t".join(row) for row in plane]
    return lines


def _labelled(chosen: Selected, values: npt.NDArray[Any]) -> list[str]:
    """Planes of the last two dimensions with coordinates at their edges, those of others above."""
    labels = {name: texts_of(each) for name, each in chosen.coordinates().items()}
    fixed = [f"{name} = {labels[name][0]}" for name in chosen.array.dims if name in chosen.single]
    dims = [name for name in chosen.array.dims if name not in chosen.single]
    texts = texts_of(chosen.squeezed(values))
    if not dims:
        return [*(["# " + ", ".join(fixed)] if fixed else []), str(texts)]
    if len(dims) == 1:  # a column, under the name of the array
        dims, texts = [*dims, ""], texts[:, None]
        labels[""] = np.array([chosen.array.name], dtype=object)
    *above, rows, columns = dims
    corner = f"{rows} \\ {columns}" if columns else rows
    lines = list[str]()
    for place in np.ndindex(*texts.shape[:-2]):
        places = zip(above, place, strict=True)
        title = [*fixed, *(f"{name} = {labels[name][at]}" for name, at in places)]
        lines += [""] if lines else []
        lines += ["# " + ", ".join(title)] if title else []
        table = [[corner, *labels[columns]]]
        table += [[label, *row] for label, row in zip(labels[rows], texts[place], strict=True)]
        lines += align(table)
    return lines


def align(table: Sequence[Sequence[Any]]) -> list[str]:
    """Lines of columns, all but the first to the right."""
    texts = [list(map(str, row)) for row in table]
    widths = [max(map(len, column)) for column in zip(*texts, strict=True)]
    return [
        "  ".join(
            [row[0].ljust(widths[0])]
            + [text.rjust(width) for text, width in zip(row[1:], widths[1:], strict=True)]
        ).rstrip()
        for row in texts
    ]


def _plain(values: npt.NDArray[Any]) -> Any:
    """Converts values for JSON: no NaN, times as text."""
    if values.dtype.kind == "f":
        kept = values.astype(object)
        kept[~np.isfinite(values)] = None
        return kept.tolist()
    return values.tolist() if values.dtype.kind in "biuUT" else texts_of(values).tolist()


def print_head(session: Session, path: NodePath, count: int, *, as_json: bool) -> None:
    facts = _facts(session, path)
    part = _corner(session, path, facts["shape"], count)
    values = part.values(decoded=True)
    if as_json:
        along = {name: _plain(each) for name, each in part.coordinates().items()}
        print_json({**facts, "coords": along, "values": _plain(values)})
        return
    dims = facts["dimension_names"] or [None] * len(facts["shape"])
    sizes = ", ".join(
        str(size) if name is None else f"{name}: {size}"
        for name, size in zip(dims, facts["shape"], strict=True)
    )
    stored = ", ".join(f"{n} {kind}" for kind, n in facts["stored_chunks"].items() if n)
    lines = {
        "array": f"{path}  ({sizes}) {facts['data_type']}, {format_size(facts['size_bytes'])}",
        "chunks": f"{tuple(facts['chunk_shape'])}; stored: {stored or 'none'}",
        "codecs": " ".join(facts["codecs"]),
        "fill value": json.dumps(facts["fill_value"]),
    }
    lines |= {f"  {name}": json.dumps(value) for name, value in facts["attributes"].items()}
    width = max(map(len, lines)) + 2
    for name, text in lines.items():
        print(f"{name:<{width}}{text}")
    print()
    for line in _labelled(part, values):
        print(line)


def _facts(session: Session, path: NodePath) -> dict[str, Any]:
    metadata = json.loads(session.node(path).user_data)
    grid = metadata.get("chunk_grid", {}).get("configuration", {})
    kinds = dict.fromkeys(RefKind, 0)
    for refs in session.chunk_refs(path):
        for kind in RefKind:
            kinds[kind] += int(np.count_nonzero(refs.kind == kind))
    dtype = open_array(session, path).dtype
    attributes = metadata.get("attributes", {})
    if "_FillValue" in attributes:
        attributes["_FillValue"] = decode_fill(attributes["_FillValue"], dtype)
    return {
        "path": path.text,
        "shape": metadata["shape"],
        "dimension_names": metadata.get("dimension_names"),
        "data_type": metadata["data_type"],
        "chunk_shape": grid.get("chunk_shape", metadata["shape"]),
        "codecs": [
            codec["name"] if isinstance(codec, dict) else codec for codec in metadata["codecs"]
        ],
        "fill_value": metadata.get("fill_value"),
        "size_bytes": prod(metadata["shape"]) * dtype.itemsize,
        "stored_chunks": {kind.name.lower(): count for kind, count in kinds.items()},
        "attributes": attributes,
    }


def _corner(session: Session, path: NodePath, shape: Sequence[int], count: int) -> Selected:
    """Returns the first values of the first plane."""
    whole = select(session, path, {}, {})
    if not all(shape):
        return whole
    dims = whole.array.dims
    first: dict[str, object] = dict.fromkeys(dims[:-2], 0)
    return select(session, path, {}, first | dict.fromkeys(dims[-2:], slice(0, count)))


# Parts of arrays to files, and files to arrays.


def write_file(chosen: Selected, file: Path) -> tuple[int, ...]:
    """Writes a file in the format of its suffix; returns the shape of what was written."""
    if file.suffix == ".npy":
        values = chosen.squeezed(chosen.values(decoded=False))
        np.save(file, values, allow_pickle=False)
        return values.shape
    table = columns(chosen)
    if file.suffix == ".csv":
        _write_csv(table, file)
    else:
        from frazil.spark.table.schema import write_parquet

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


# Arrays made of numpy's, or extended with them.

_GROUP = b'{"zarr_format":3,"node_type":"group","attributes":{}}'


def create(
    session: Session,
    path: NodePath,
    values: npt.NDArray[Any],
    dims: tuple[str, ...] | None,
    chunks: Mapping[str, int],
    *,
    overwrite: bool,
) -> tuple[int, ...]:
    """A new array, and the groups above it. Returns its shape."""
    if not path.name:
        raise InvalidInputError("an array needs a name: the root is a group")
    if session.find_node(path) is not None and not overwrite:
        raise AlreadyExistsError(f"{path} is there already: --overwrite replaces it")
    if dims is not None and len(dims) != values.ndim:
        raise InvalidInputError(
            f"--dims names {len(dims)} dimensions, the file has {values.ndim}: {values.shape}"
        )
    names = dims or tuple(f"dim_{k}" for k in range(values.ndim))
    unknown = sorted({*chunks} - {*names})
    if unknown:
        raise InvalidInputError(
            f"--chunks names {unknown[0]!r}; the dimensions are {', '.join(names) or 'none'}"
        )
    for above in reversed([*path.ancestors]):
        session.set_node_if_absent(above, _GROUP)
    lengths = (chunks.get(name, size) for name, size in zip(names, values.shape, strict=True))
    group = open_group(session, path.parent or ROOT)
    made = group.create_array(
        path.name,
        shape=values.shape,
        dtype=values.dtype,
        chunks=tuple(
            size if length < 0 else max(1, min(length, size))
            for length, size in zip(lengths, values.shape, strict=True)
        ),
        dimension_names=dims,
        overwrite=overwrite,
    )
    made[...] = values
    return values.shape


def append_to(
    session: Session, path: NodePath, values: npt.NDArray[Any], dim: str
) -> tuple[int, ...]:
    """Longer along `dim`. Returns the new shape."""
    array = open_array(session, path)
    names = getattr(array.metadata, "dimension_names", None) or ()
    if dim not in names:
        raise InvalidInputError(
            f"{path} has no dimension {dim!r}; it has {', '.join(map(str, names)) or 'no names'}"
        )
    axis = names.index(dim)
    before = array.shape
    rest = [size for k, size in enumerate(before) if k != axis]
    if values.ndim != len(before) or [n for k, n in enumerate(values.shape) if k != axis] != rest:
        raise InvalidInputError(
            f"{path} is {before}, the file {values.shape}: only {dim} may differ"
        )
    if not _fits(values, array.dtype):
        raise InvalidInputError(f"{path} holds {array.dtype}, the file {values.dtype}")
    after = tuple(n + values.shape[axis] * (k == axis) for k, n in enumerate(before))
    array.resize(after)
    where = tuple(slice(before[k] if k == axis else 0, n) for k, n in enumerate(after))
    write_region(session, path, where, values.astype(array.dtype))
    return after


def _fits(values: npt.NDArray[Any], dtype: Any) -> bool:
    """True if the kinds of the dtypes match: a file may have wider numbers than the array."""
    return (
        values.dtype == dtype
        or values.dtype.kind == dtype.kind
        or (values.dtype.kind in "iu" and dtype.kind == "f")
    )
