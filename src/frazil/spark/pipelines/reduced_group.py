"""The group that a reduction is stored in: reduced variables, and the coordinates that are left."""

from typing import Any

import numpy as np
import numpy.typing as npt

from frazil.errors import AlreadyExistsError
from frazil.paths import NodePath
from frazil.repo.session import Session
from frazil.spark.description import Grid
from frazil.spark.ingestion.metadata import group_document
from frazil.spark.jobs.regions import store_region
from frazil.spark.pipelines.grouping import Grouping
from frazil.spark.pipelines.partials import How
from frazil.spark.pipelines.reduce_plan import ReducePlan, Variable
from frazil.zarrstore.arrays import read_region
from frazil.zarrstore.documents import array_document

# They tell how the source is stored; reduced values are stored as they are.
_ENCODING = frozenset({"_FillValue", "missing_value", "scale_factor", "add_offset", "_Unsigned"})
_MICROSECONDS = {"units": "microseconds since 1970-01-01", "calendar": "proleptic_gregorian"}


def require_new(session: Session, into: NodePath, plan: ReducePlan, grid: Grid) -> None:
    """Raises AlreadyExistsError: a reduction never overwrites, and shares coordinates that fit."""
    there = session.find_node(into)
    if there is not None and there.array is not None:
        raise AlreadyExistsError(f"there is an array at `{into}`: choose another group")
    for variable in plan.variables:
        if session.find_node(into.child(variable.source.name)) is not None:
            raise AlreadyExistsError(
                f"there is already {variable.source.name!r} in group `{into}`: choose another group"
            )
    for dimension in grid.dimensions:
        if dimension.coordinate is not None and dimension.name in plan.dims:
            source = NodePath(dimension.coordinate.path)
            _require_same(session, into.child(dimension.name), _values(session, source))
    if plan.grouping is not None:
        labels, _, _ = _stored_labels(plan.grouping.labels)
        _require_same(session, into.child(plan.grouping.name), labels)


def _require_same(session: Session, path: NodePath, values: npt.NDArray[Any]) -> None:
    node = session.find_node(path)
    if node is None:
        return
    if node.array is None or not np.array_equal(_values(session, path), values):
        raise AlreadyExistsError(
            f"there is another coordinate at `{path}`: choose another group for the result"
        )


def _values(session: Session, path: NodePath) -> npt.NDArray[Any]:
    array = session.node(path).array
    shape = () if array is None else array.shape
    return read_region(session, path, tuple(slice(0, n) for n in shape))


def create_arrays(
    session: Session, base: Session, into: NodePath, plan: ReducePlan, grid: Grid
) -> tuple[bytes, ...]:
    """Pending groups, coordinates and variables; the documents of the variables."""
    for group in (into, *into.ancestors):
        session.set_node_if_absent(group, group_document({}))
    for dimension in grid.dimensions:
        if dimension.coordinate is not None and dimension.name in plan.dims:
            _copy(session, base, NodePath(dimension.coordinate.path), into.child(dimension.name))
    if plan.grouping is not None:
        _write_labels(session, into.child(plan.grouping.name), plan.grouping)
    documents = tuple(_document(plan, one) for one in plan.variables)
    for one, document in zip(plan.variables, documents, strict=True):
        session.set_node(into.child(one.source.name), document)
    return documents


def _copy(session: Session, base: Session, source: NodePath, target: NodePath) -> None:
    """The same chunks, referred to twice."""
    if session.set_node_if_absent(target, base.node(source).user_data):
        for refs in base.chunk_refs(source):
            session.set_chunk_refs(target, refs)


def _write_labels(session: Session, path: NodePath, grouping: Grouping) -> None:
    labels, dtype, attributes = _stored_labels(grouping.labels)
    document = array_document(
        shape=labels.shape,
        chunks=(max(1, len(labels)),),
        dtype=dtype,
        fill_value="" if dtype == "string" else 0,
        dims=[grouping.name],
        attributes=attributes,
    )
    if session.set_node_if_absent(path, document) and len(labels):
        where = (slice(0, len(labels)),)
        session.set_chunk_refs(path, store_region(document, session.chunk_writer(), where, labels))


def _stored_labels(labels: npt.NDArray[Any]) -> tuple[npt.NDArray[Any], str, dict[str, str]]:
    if labels.dtype.kind == "M":
        return labels.astype("datetime64[us]").view(np.int64), "int64", _MICROSECONDS
    if labels.dtype.kind == "O":
        return labels, "string", {}
    return labels, labels.dtype.name, {}


def _document(plan: ReducePlan, variable: Variable) -> bytes:
    dtype = variable.result
    # What is never written has no values: no number of them, a sum of 0, and else NaN.
    missing = dtype.kind == "f" and plan.how is not How.SUM
    left_out = _ENCODING | {"units"} if plan.how is How.COUNT else _ENCODING
    return array_document(
        shape=plan.shape,
        chunks=plan.chunks,
        dtype=dtype.name,
        fill_value=dtype.type(np.nan) if missing else dtype.type(0),
        dims=plan.dims,
        attributes={k: v for k, v in variable.source.attrs.items() if k not in left_out},
    )
