"""Answers to the questions of the Java side, and the scans that it plans.

A question is JSON in the option `frazilQuestion` of the data source; the answer is JSON in the
metadata of the last field of the schema that the data source returns, for that is what Spark hands
from a Python process of the driver to the JVM. A planned scan is JSON in the option `frazilScan`.
docs/design/033-native-spark-table.md has both, field by field.
"""

import base64
import json
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyspark.sql.types import (
    BooleanType,
    ByteType,
    DataType,
    DayTimeIntervalType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    ShortType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from frazil.errors import InvalidInputError, SessionStateError
from frazil.paths import NodePath
from frazil.spark.native.aggregate import Aggregate, parse_aggregate
from frazil.spark.native.jar import sources_digest
from frazil.spark.native.names import find_version_named
from frazil.spark.runtime.storage_options import PlaceText
from frazil.spark.table.opened import Opened, Pinned, open_repository, pin, reuse_pinned
from frazil.spark.table.options import ReadOptions, Version, format_options
from frazil.spark.table.scan import Table, plan_axes, plan_table
from frazil.spark.table.scan_plan import Axis, Sample
from frazil.spark.table.schema import ColumnPlan, spark_schema, spark_type, to_arrow
from frazil.spark.table.selection import (
    ALL_POSITIONS,
    EVERYTHING,
    Positions,
    Selection,
    compact,
    parse_selection,
)
from frazil.spark.table.value_condition import ValueCondition, parse_value_conditions

QUESTION = "frazilQuestion"
SCAN = "frazilScan"
PRUNE = "frazilPrune"  # of changes: what may be left unread
JAVA = "frazilJava"
WHICH = "?"  # the value of `frazilJava` that asks for the version instead of telling it
_ANSWER = "frazil"
_MOST_EDGES = 2**17  # of ranges that are sent to the JVM
_INLINE_VALUES = 2**14  # coordinates up to this size come with the description of their table
_INLINE_CHARACTERS = 2**20  # and if they are no longer than that, packed
# what reads answers in the JVM, Jackson, takes no text of more than 20 million characters
_ANSWER_VALUES = 2**20
_ANSWER_CHARACTERS = 2**24

_TYPES: dict[type[DataType], str] = {
    LongType: "i8",
    IntegerType: "i4",
    ShortType: "i2",
    ByteType: "i1",
    DoubleType: "f8",
    FloatType: "f4",
    BooleanType: "b1",
    TimestampType: "i8",
    DayTimeIntervalType: "i8",
    StringType: "text",
    DecimalType: "decimal",
}


@dataclass(frozen=True, slots=True)
class PlannedScan:
    """A scan as the Java side decided it: the snapshot, and the cells to be read.

    `cells` are disjoint products: for each dimension, the edges of ranges of positions. None for
    what has no cells: chunks as rows, and metadata tables. With `aggregate` no cells are returned,
    but partial aggregates of them.
    """

    snapshot: str
    cells: tuple[tuple[tuple[int, ...], ...], ...] | None
    sample: Sample | None = None
    cuts: tuple[tuple[int, ...], ...] | None = None  # positions where tasks begin, and the end
    aggregate: Aggregate | None = None
    counters: bool = False  # whether the last column of the schema is for counters
    boxes: bool = False  # whether readers tell which cells they return, in that column
    where: ValueCondition | None = None  # of the rows that are returned, or aggregated

    @property
    def numbered(self) -> bool:
        """True if the schema has a column, before that for counters, for places in the box."""
        return self.boxes and self.where is not None

    def axes(self, table: Table) -> list[tuple[Axis, ...]]:
        names = [dimension.name for dimension in table.grid.dimensions]
        return [
            tuple(Axis(n, _positions(edges)) for n, edges in zip(names, product, strict=True))
            for product in self.cells or ()
        ]


def without_native_options(options: Mapping[str, str]) -> dict[str, str]:
    own = {QUESTION.lower(), SCAN.lower(), JAVA.lower(), PRUNE.lower()}
    return {name: text for name, text in options.items() if name.lower() not in own}


def find_option(options: Mapping[str, str], wanted: str) -> str | None:
    return next((text for name, text in options.items() if name.lower() == wanted.lower()), None)


def find_version(options: Mapping[str, str]) -> StructType | None:
    """The Java classes that fit, as the name of a column, if the option `frazilJava` asks for it.

    If it tells the version instead, that of another frazil raises SessionStateError.
    """
    told = find_option(options, JAVA)
    if told == WHICH:
        return StructType([StructField(sources_digest(), StringType())])
    if told is not None and told != sources_digest():
        raise SessionStateError(
            "the jar that Spark has is of another version of frazil than the package that Python"
            " imports; `frazil spark jar` makes the one that fits"
        )
    return None


def parse_scan(options: Mapping[str, str]) -> PlannedScan | None:
    """Parses the option `frazilScan`, None if it is not given."""
    text = find_option(options, SCAN)
    if text is None:
        return None
    match _parse_json(SCAN, text):
        case {"snapshot": str(snapshot), **rest}:
            try:
                return PlannedScan(
                    snapshot,
                    _cells(rest),
                    _sample(rest),
                    _cuts(rest),
                    _aggregate(rest),
                    rest.get("counters") is True,
                    rest.get("boxes") is True,
                    parse_value_conditions(rest["where"]) if "where" in rest else None,
                )
            except (KeyError, TypeError, ValueError):
                pass
    raise InvalidInputError(f"option {SCAN!r} is not a planned scan; only Spark's side writes it")


def _cells(scan: Mapping[Any, Any]) -> tuple[tuple[tuple[int, ...], ...], ...] | None:
    if "cells" not in scan:
        return None
    return tuple(tuple(tuple(map(int, along)) for along in product) for product in scan["cells"])


def _sample(scan: Mapping[Any, Any]) -> Sample | None:
    if "sample" not in scan:
        return None
    told = scan["sample"]
    return Sample(float(told["lower"]), float(told["upper"]), int(told["seed"]))


def _cuts(scan: Mapping[Any, Any]) -> tuple[tuple[int, ...], ...] | None:
    return tuple(tuple(map(int, along)) for along in scan["cuts"]) if "cuts" in scan else None


def _aggregate(scan: Mapping[Any, Any]) -> Aggregate | None:
    return parse_aggregate(scan["aggregate"]) if "aggregate" in scan else None


def parse_prune(options: Mapping[str, str]) -> Selection:
    """Parses the option `frazilPrune`: conditions that Spark applies again."""
    text = find_option(options, PRUNE)
    try:
        return EVERYTHING if text is None else parse_selection(text)
    except InvalidInputError:  # a literal that `sel` does not take
        return EVERYTHING


def pin_planned(options: ReadOptions, scan: PlannedScan | None) -> ReadOptions:
    return options if scan is None else replace(options, version=Version(snapshot=scan.snapshot))


def parse_question(text: str) -> dict[str, Any]:
    question = _parse_json(QUESTION, text)
    if not isinstance(question, dict):
        raise InvalidInputError(f"option {QUESTION!r} is not a question; only Spark's side asks")
    return question


def answer_about(question: Mapping[str, Any], options: ReadOptions) -> StructType:
    """Answers a question about the cells of a group."""
    match question:
        case {"describe": True}:
            pinned = pin(options)
            opened = reuse_pinned(pinned)
            table = plan_table(opened, options)
            nulls = question.get("nulls") is True
            told = describe_cells(opened, pinned, table, options, finds_nulls=nulls)
            return with_answer(spark_schema(table.columns), told)
        case {"node": list(below)}:
            found = find_node(options, below, question.get("version"), question.get("asOf"))
            return with_answer(StructType(), {"options": format_options(found)})
        case {"coordinate": str(name), "start": int(start), "snapshot": str(snapshot)}:
            opened = reuse_pinned(pin(replace(options, version=Version(snapshot=snapshot))))
            values = _coordinate_named(opened, plan_table(opened, options), name, start)
            return with_answer(StructType(), {"values": values})
        case {"select": dict(selected), "snapshot": str(snapshot)}:
            opened = reuse_pinned(pin(replace(options, version=Version(snapshot=snapshot))))
            return with_answer(StructType(), {"positions": _select(opened, options, selected)})
    raise InvalidInputError(f"option {QUESTION!r} asks nothing that is known")


def find_node(
    options: ReadOptions, below: Sequence[str], version: str | None, as_of_us: int | None
) -> ReadOptions:
    """Options of a table that SQL names: the parts of its name below the group, and its version.

    An array is its group and a variable. `version` is a tag, a branch or a snapshot.
    """
    if version is not None:
        place = PlaceText(options.path, options.secret_storage)
        named = find_version_named(open_repository(place, options.access), version)
        options = replace(options, version=named)
    elif as_of_us is not None:
        branch = options.version.branch
        options = replace(options, version=Version(branch=branch, as_of_us=as_of_us))
    pinned = pin(options)
    options = replace(options, version=Version(snapshot=pinned.snapshot))
    path = node_path(options.group, below)
    node = reuse_pinned(pinned).session.find_node(path)
    if node is not None and node.array is not None:
        return replace(options, group=str(path.parent), variables=(path.name,))
    return replace(options, group=str(path))


def node_path(group: str, below: Sequence[str]) -> NodePath:
    """Path of a node that is named in parts, which may be paths themselves."""
    segments = [s for part in (group, *below) for s in part.split("/") if s]
    return NodePath("/" + "/".join(segments))


def describe_plain(schema: StructType | str, title: str, snapshot: str | None) -> StructType:
    """The description of a table without cells: chunks as rows, metadata tables, streams."""
    told: dict[str, Any] = {"kind": "plain", "title": title, "snapshot": snapshot, "properties": {}}
    told |= {"dimensions": [], "variables": []}
    if isinstance(schema, str):  # only a JVM can parse it
        return with_answer(StructType(), {**told, "ddl": schema})
    return with_answer(schema, told)


def with_answer(schema: StructType, answer: Mapping[str, Any]) -> StructType:
    told = StructField(_ANSWER, StringType(), metadata={_ANSWER: json.dumps(answer)})
    return StructType([*schema.fields, told])


def answer_in(schema: StructType) -> dict[str, Any]:
    """Inverse of `with_answer`: what the schema carries beside its columns."""
    found: dict[str, Any] = json.loads(schema.fields[-1].metadata[_ANSWER])
    return found


def title_of(options: ReadOptions) -> str:
    """Name of a table for people, in plans and errors; nothing secret is in it."""
    parts = [f"table {options.table}" if options.table else "", options.group.strip("/")]
    return " ".join(["icechunk", options.path, *(part for part in parts if part)])


def describe_cells(
    opened: Opened,
    pinned: Pinned,
    table: Table,
    options: ReadOptions,
    *,
    finds_nulls: bool = False,
) -> dict[str, Any]:
    axes = plan_axes(opened, table, options)
    return {
        "kind": "cells",
        "title": title_of(options),
        "snapshot": pinned.snapshot,
        "properties": {},
        "dimensions": [
            _describe_dimension(opened, column, dimension.size, axis, finds_nulls=finds_nulls)
            for dimension, column, axis in zip(
                table.grid.dimensions, table.dimensions, axes, strict=True
            )
        ],
        "variables": [
            {"name": v.name, "chunks": [v.chunk_of(axis.name) for axis in axes]}
            for v in table.grid.variables
        ],
    }


def _describe_dimension(
    opened: Opened, column: ColumnPlan, size: int, axis: Axis, *, finds_nulls: bool
) -> dict[str, Any]:
    code = _TYPES.get(type(spark_type(column)))
    told: dict[str, Any] = {"name": column.name, "size": size, "type": code}
    if finds_nulls:
        values = to_arrow(opened.coordinate(column, slice(0, size), size=size))
        told["nullable"] = values.null_count > 0
    if len(axis) != size:
        told["selected"] = edges_of(axis.positions)
    if code is not None and size <= _INLINE_VALUES:
        packed = _pack(opened, column, size, code)
        if len(packed["data"]) <= _INLINE_CHARACTERS:
            told["values"] = packed
    return told


def _select(
    opened: Opened, options: ReadOptions, selected: Mapping[str, object]
) -> list[int] | None:
    """Edges of the positions that bounds on one coordinate keep; None if they are too scattered."""
    ((name, _),) = selected.items()
    wanted = replace(options, selection=parse_selection(json.dumps(selected)), isel=ALL_POSITIONS)
    try:
        axes = plan_axes(opened, plan_table(opened, options), wanted)
    except InvalidInputError:  # a literal that `sel` does not take: Spark's filter remains
        return None
    (positions,) = (axis.positions for axis in axes if axis.name == name)
    edges = edges_of(positions)
    return edges if len(edges) <= _MOST_EDGES else None


def _coordinate_named(opened: Opened, table: Table, name: str, start: int) -> dict[str, Any]:
    """Returns as many values from `start` on as an answer holds."""
    for dimension, column in zip(table.grid.dimensions, table.dimensions, strict=True):
        code = _TYPES.get(type(spark_type(column)))
        if column.name == name and code is not None:
            count = min(dimension.size - start, _ANSWER_VALUES)
            packed = _pack(opened, column, dimension.size, code, slice(start, start + count))
            while len(packed["data"]) > _ANSWER_CHARACTERS and count > 1:
                count //= 2
                packed = _pack(opened, column, dimension.size, code, slice(start, start + count))
            return packed
    raise InvalidInputError(f"no dimension {name!r} with values that can be compared")


def _pack(
    opened: Opened, column: ColumnPlan, size: int, code: str, part: slice | None = None
) -> dict[str, Any]:
    """Values of a coordinate as the rows have them, packed for the JVM."""
    values = to_arrow(opened.coordinate(column, part or slice(0, size), size=size))
    told: dict[str, Any] = {"count": len(values)}
    if values.null_count:
        told["null"] = _deflate(values.is_null().to_numpy(zero_copy_only=False).astype("u1"))
    told["data"] = _deflate(_plain_values(values, code))
    return told


def _plain_values(values: pa.Array, code: str) -> npt.NDArray[Any] | bytes:
    if code == "text":
        return json.dumps(values.to_pylist()).encode()
    if code == "decimal":
        return json.dumps([None if v is None else str(v) for v in values.to_pylist()]).encode()
    if pa.types.is_temporal(values.type):
        values = values.view(pa.int64())
    elif pa.types.is_boolean(values.type):
        values = values.cast(pa.uint8())
    plain: npt.NDArray[Any] = values.fill_null(0).to_numpy(zero_copy_only=False)
    return plain.astype("u1" if code == "b1" else f"<{code}", copy=False)


def _deflate(data: npt.NDArray[Any] | bytes) -> str:
    plain = data if isinstance(data, bytes) else np.ascontiguousarray(data).tobytes()
    return base64.b64encode(zlib.compress(plain, 1)).decode()


def edges_of(positions: Positions) -> list[int]:
    """Edges of the ranges of positions: start, stop, start, stop and so on."""
    if isinstance(positions, range):
        return [positions.start, positions.stop] if positions else []
    breaks = np.flatnonzero(np.diff(positions) > 1)
    starts = np.concatenate([positions[:1], positions[breaks + 1]])
    stops = np.concatenate([positions[breaks], positions[-1:]]) + 1
    return [int(edge) for edge in np.stack([starts, stops], axis=1).reshape(-1)]


def _positions(edges: Sequence[int]) -> Positions:
    if len(edges) == 2:
        return range(edges[0], edges[1])
    pairs = np.array(edges, dtype=np.int64).reshape(-1, 2)
    parts = [np.arange(start, stop) for start, stop in pairs]
    return compact(np.concatenate(parts)) if parts else range(0)


def _parse_json(option: str, text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        raise InvalidInputError(f"option {option!r} is not JSON") from None
