"""A function over blocks of arrays, to blocks of other arrays: one Spark job, one commit."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from math import lcm, prod
from time import perf_counter
from typing import Any

import numpy as np
import numpy.typing as npt
from pyspark.sql import SparkSession

from frazil.engine.commit.chunk_writer import ChunkWriter
from frazil.engine.files.files import Files
from frazil.engine.refs.version import Branch
from frazil.engine.session.session import Session
from frazil.errors import AlreadyExistsError, InvalidInputError
from frazil.flatbuf.flexbuffers import Json
from frazil.paths import NodePath
from frazil.spark.io.opening import StorageOptions, open_shared
from frazil.spark.pipelines.relayout import WHOLE, is_whole, read_bounded
from frazil.spark.runtime.commits import CommitNote, commit_once, find_commit, session_at
from frazil.spark.runtime.executor import spark_executor
from frazil.spark.runtime.jobs import (
    MIN_TASK_BYTES,
    Cut,
    Region,
    choose_box,
    partitions_for,
    region_shape,
    store_region,
)
from frazil.spark.runtime.progress import ProgressOption
from frazil.spark.runtime.stored_refs import Written, plan_sink
from frazil.spark.table.description import ArrayDescription
from frazil.spark.table.documents import group_document
from frazil.spark.table.opened import Opened, RepositoryLike
from frazil.zarrstore.array_codecs import array_document

# Neighbours of a block: what is read around it, and what stands for what is beyond the array.
#
# boundary     beyond the ends of the array
# clip         nothing: blocks at the edges have a smaller halo
# nearest      the value at the edge
# reflect      the values before the edge, in reverse order, without the edge itself
# wrap         the values from the other end, as along longitudes
# a number     that number

BOUNDARIES = ("clip", "nearest", "reflect", "wrap")

type Boundary = str | float
type ReadRegion = Callable[[Region], npt.NDArray[Any]]


@dataclass(frozen=True, slots=True, eq=False)
class AxisRead:
    """Segments to read one after the other, what to take of them, and how much to add.

    `before` is how many positions of the result come before the block itself, `after` after it.
    """

    segments: tuple[slice, ...]
    take: npt.NDArray[np.int64] | None
    pad: tuple[int, int]
    before: int
    after: int


def check_boundary(boundary: Boundary) -> Boundary:
    if isinstance(boundary, str) and boundary not in BOUNDARIES:
        raise InvalidInputError(
            f"boundary is {boundary!r}, expected a number or one of {', '.join(BOUNDARIES)}"
        )
    return boundary


def plan_axis(block: slice, size: int, halo: tuple[int, int], boundary: Boundary) -> AxisRead:
    """Plans what to read along one axis, for a block that is not empty."""
    start, stop = block.start - halo[0], block.stop + halo[1]
    inside = slice(max(0, start), min(size, stop))
    if inside == slice(start, stop):
        return AxisRead((inside,), None, (0, 0), *halo)
    if boundary == "clip":
        before, after = block.start - inside.start, inside.stop - block.stop
        return AxisRead((inside,), None, (0, 0), before, after)
    if not isinstance(boundary, str):
        return AxisRead((inside,), None, (inside.start - start, stop - inside.stop), *halo)
    wanted = _map_positions(np.arange(start, stop), size, boundary)
    found = np.unique(wanted)
    edges = np.flatnonzero(np.diff(found) > 1) + 1
    segments = tuple(slice(int(run[0]), int(run[-1]) + 1) for run in np.split(found, edges))
    return AxisRead(segments, np.searchsorted(found, wanted), (0, 0), *halo)


def read_block(
    read: ReadRegion, axes: Sequence[AxisRead], boundary: Sequence[Boundary]
) -> npt.NDArray[Any]:
    """The block with its halo."""
    values = _assemble(read, [axis.segments for axis in axes])
    for k, axis in enumerate(axes):
        if axis.take is not None:
            values = values.take(axis.take, axis=k)
    for k, axis in enumerate(axes):
        if any(axis.pad):
            width = [axis.pad if k == other else (0, 0) for other in range(values.ndim)]
            values = np.pad(values, width, constant_values=boundary[k])
    return values


def _map_positions(
    positions: npt.NDArray[np.int64], size: int, boundary: str
) -> npt.NDArray[np.int64]:
    if boundary == "nearest" or size == 1:
        return np.clip(positions, 0, size - 1)
    if boundary == "wrap":
        return positions % size
    last = size - 1
    return last - np.abs(positions % (2 * last) - last)


def _assemble(read: ReadRegion, segments: Sequence[tuple[slice, ...]]) -> npt.NDArray[Any]:
    if all(len(along) == 1 for along in segments):
        return read(tuple(along[0] for along in segments))
    ends = [np.cumsum([part.stop - part.start for part in along]) for along in segments]
    made: npt.NDArray[Any] | None = None
    for chosen in product(*(range(len(along)) for along in segments)):
        region = tuple(along[k] for along, k in zip(segments, chosen, strict=True))
        values = read(region)
        if made is None:
            made = np.empty([int(end[-1]) for end in ends], dtype=values.dtype)
        stops = [int(end[k]) for end, k in zip(ends, chosen, strict=True)]
        made[tuple(slice(e - n, e) for e, n in zip(stops, values.shape, strict=True))] = values
    return read(()) if made is None else made


# Blocks of several arrays that fit together, by the names of their dimensions.

type Halo = Mapping[str, int | tuple[int, int]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Output:
    """An array to be made. `dims` are by default those of the blocks; `sizes` of new ones."""

    dtype: npt.DTypeLike
    dims: tuple[str, ...] | None = None
    sizes: Mapping[str, int] = field(default_factory=dict)
    chunks: Mapping[str, int] = field(default_factory=dict)
    attrs: Mapping[str, Any] = field(default_factory=dict)
    fill_value: object = None  # NaN or 0
    codecs: Sequence[Mapping[str, Any]] | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Block:
    """Position of a block: `region` without its halo, by dimension; `halo` as at the edges."""

    number: int
    region: Mapping[str, slice]
    halo: Mapping[str, tuple[int, int]]


@dataclass(frozen=True, slots=True, eq=False)
class Target:
    path: str
    dims: tuple[str, ...]
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    document: bytes


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class BlocksPlan:
    inputs: tuple[ArrayDescription, ...]
    targets: tuple[Target, ...]
    dims: tuple[str, ...]
    cut: Cut  # of these dims
    halo: Mapping[str, tuple[int, int]]
    boundary: Mapping[str, Boundary]

    @property
    def size_bytes(self) -> int:
        return sum(prod(one.shape) * one.dtype.itemsize for one in self.targets)


def plan_blocks(
    inputs: Sequence[ArrayDescription],
    outputs: Mapping[str, Output],
    *,
    blocks: Mapping[str, int],
    halo: Halo,
    boundary: Boundary | Mapping[str, Boundary],
    max_bytes: int,
) -> BlocksPlan:
    """Raises InvalidInputError if arrays do not fit together, or what is named does not exist."""
    if not inputs or not outputs:
        raise InvalidInputError("map_blocks needs at least one input and one output")
    sizes = _sizes(inputs)
    edges = boundary if isinstance(boundary, Mapping) else dict.fromkeys(sizes, boundary)
    for what, named in (("blocks", blocks), ("halo", halo), ("boundary", edges)):
        unknown = sorted(set(named) - set(sizes))
        if unknown:
            raise InvalidInputError(f"{what} name {unknown}, the dimensions are {list(sizes)}")
    chunks = _input_chunks(inputs)
    made = {path: _target(path, one, sizes, chunks) for path, one in outputs.items()}
    units = {dim: _unit(dim, made.values(), chunks) for dim in sizes}
    whole = {dim for dim in sizes for target, _ in made.values() if dim not in target.dims}
    box = _box(inputs, sizes, units, whole, blocks, max_bytes=max_bytes)
    return BlocksPlan(
        inputs=tuple(inputs),
        targets=tuple(target for target, _ in made.values()),
        dims=tuple(sizes),
        cut=Cut(tuple(sizes.values()), box),
        halo={dim: _pair(dim, width) for dim, width in halo.items()},
        boundary={dim: check_boundary(edge) for dim, edge in edges.items()},
    )


def _sizes(inputs: Sequence[ArrayDescription]) -> dict[str, int]:
    sizes: dict[str, int] = {}
    for one in inputs:
        for dim, size in zip(one.dims, one.shape, strict=True):
            if sizes.setdefault(dim, size) != size:
                raise InvalidInputError(
                    f"`{one.path}` has {size} along {dim!r}, another input has {sizes[dim]}"
                )
    return sizes


def _input_chunks(inputs: Sequence[ArrayDescription]) -> dict[str, int]:
    """Chunk size of the first input that has the dimension."""
    chunks: dict[str, int] = {}
    for one in inputs:
        for dim, chunk, size in zip(one.dims, one.chunks, one.shape, strict=True):
            chunks.setdefault(dim, max(1, min(chunk, size)))
    return chunks


def _target(
    path: str, output: Output, sizes: Mapping[str, int], chunks: Mapping[str, int]
) -> tuple[Target, dict[str, int]]:
    """The array, and its chunks by dimension."""
    dims = tuple(sizes) if output.dims is None else tuple(output.dims)
    known = {**output.sizes, **sizes}  # those of the inputs win, and must be equal
    unknown = [dim for dim in dims if dim not in known]
    if unknown:
        raise InvalidInputError(f"output `{path}`: give sizes of the new dimensions {unknown}")
    _require_output(path, output, dims, sizes)
    shape = tuple(known[dim] for dim in dims)
    usual = {dim: chunks.get(dim, max(1, known[dim])) for dim in dims}
    wanted = {**usual, **output.chunks}
    lengths = {
        dim: max(1, known[dim]) if wanted[dim] == WHOLE else wanted[dim] for dim in dims
    }  # fmt: skip
    dtype = np.dtype(output.dtype)
    fill = output.fill_value
    if fill is None:
        fill = np.full((), np.nan if dtype.kind == "f" else 0, dtype)[()]
    document = array_document(
        shape=shape,
        chunks=tuple(lengths.values()),
        dtype=dtype.name,
        fill_value=fill,
        dims=dims,
        attributes=output.attrs,
        codecs=output.codecs,
    )
    return Target(path, dims, shape, dtype, document), lengths


def _require_output(
    path: str, output: Output, dims: tuple[str, ...], sizes: Mapping[str, int]
) -> None:
    if len(set(dims)) != len(dims):
        raise InvalidInputError(f"output `{path}` has a dimension twice: {', '.join(dims)}")
    unknown = sorted(set(output.chunks) - set(dims))
    if unknown:
        raise InvalidInputError(f"output `{path}`: chunks name {unknown}, it has {list(dims)}")
    for what, given, least in (("sizes", output.sizes, 0), ("chunks", output.chunks, 1)):
        for dim, length in given.items():
            if not is_whole(length) or (length < least and (what, length) != ("chunks", WHOLE)):
                raise InvalidInputError(
                    f"output `{path}`: {what} of {length!r} along {dim!r}, expected {least} or more"
                )
    for dim in output.sizes.keys() & sizes.keys():
        if output.sizes[dim] != sizes[dim]:
            raise InvalidInputError(
                f"output `{path}`: {dim!r} is of size {sizes[dim]} in the inputs,"
                f" not {output.sizes[dim]}"
            )


def _unit(
    dim: str, made: Iterable[tuple[Target, dict[str, int]]], chunks: Mapping[str, int]
) -> int:
    """Blocks along `dim` are of so many elements, or several times that."""
    lengths = [found[dim] for _, found in made if dim in found]
    return lcm(*lengths) if lengths else chunks[dim]


def _box(
    inputs: Sequence[ArrayDescription],
    sizes: Mapping[str, int],
    units: Mapping[str, int],
    whole: set[str],
    blocks: Mapping[str, int],
    *,
    max_bytes: int,
) -> tuple[int, ...]:
    fixed = {dim: sizes[dim] for dim in whole}
    for dim, length in blocks.items():
        if not is_whole(length):
            raise InvalidInputError(f"blocks of {length!r} along {dim!r}: expected a whole number")
        given = sizes[dim] if length == WHOLE else length
        if dim in whole and given < sizes[dim]:
            raise InvalidInputError(f"an output lacks {dim!r}, so blocks must be whole along it")
        if given < 1 or (given % units[dim] and given < sizes[dim]):
            raise InvalidInputError(
                f"blocks of {length} along {dim!r} are not whole chunks of {units[dim]}"
            )
        fixed[dim] = given
    chunks = _input_chunks(inputs)
    unit = [max(1, fixed.get(dim, units[dim])) for dim in sizes]
    goal = [u if dim in fixed else max(u, chunks[dim]) for dim, u in zip(sizes, unit, strict=True)]
    if blocks:  # the caller decides: only what fits to the chunks is added
        return tuple(unit)
    itemsize = sum(max(1, one.dtype.itemsize) for one in inputs) + 8
    return choose_box(tuple(sizes.values()), unit, goal, itemsize=itemsize, max_bytes=max_bytes)


def _pair(dim: str, width: int | tuple[int, int]) -> tuple[int, int]:
    before, after = (width, width) if isinstance(width, int) else width
    if before < 0 or after < 0:
        raise InvalidInputError(f"halo of {width} along {dim!r}: at least 0")
    return before, after


type BlockFunction = Callable[..., Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class MapBlocksResult:
    """`committed` is False when an earlier run with the same idempotency key had done it."""

    snapshot_id: str
    arrays: int
    blocks: int
    chunks: int
    bytes: int  # stored, after compression
    seconds: float
    committed: bool


def map_blocks(
    spark: SparkSession,
    repo: RepositoryLike,
    function: BlockFunction,
    inputs: str | Sequence[str],
    outputs: Mapping[str, Output | npt.DTypeLike],
    *,
    blocks: Mapping[str, int] | None = None,
    halo: Halo | None = None,
    boundary: Boundary | Mapping[str, Boundary] = "clip",
    trim: bool = True,
    with_block: bool = False,
    overwrite: bool = False,
    branch: str = "main",
    message: str | None = None,
    metadata: Mapping[str, Json] | None = None,
    idempotency_key: str | None = None,
    storage: StorageOptions | None = None,
    progress: ProgressOption = None,
) -> MapBlocksResult:
    """Applies a function to aligned blocks of arrays, and stores what it returns, as one commit.

    Args:
        spark: the session whose executors read, call and write.
        repo: the repository, or where it is.
        function: called with one array for each input, values as stored, axes as they are in the
            input; returns an array, or a tuple of them if there are several outputs.
        inputs: paths of arrays. They are aligned by the names of their dimensions, which need not
            be the same; where they share one, it must be equally long.
        outputs: by path, what is made: an Output, or a dtype alone. A dimension that an output
            lacks is not cut; one that no input has is of the size that the Output says.
        blocks: length by dimension, in whole chunks of the outputs, -1 for the whole; by default
            as much as a task can hold.
        halo: how many neighbours a block gets on both sides, or before and after, by dimension.
        boundary: what is beyond the ends of the array, by dimension or for all: `clip`, `nearest`,
            `reflect`, `wrap`, or a number. With `clip` blocks at the ends get less.
        trim: whether the function returns blocks with the halo, which is then cut off; else it
            returns them without.
        with_block: whether the function gets a Block as keyword `block`.
        overwrite: whether outputs may replace arrays.
        branch: what is read is its tip; it gets the commit.
        message: of the commit.
        metadata: of the commit, in addition to what is recorded under the key `frazil`.
        idempotency_key: if a commit in the branch's history was made with the same key,
            nothing is done, and that commit is returned.
        storage: how the bucket that `repo` names is reached, as in `frazil.s3_storage` and such.
        progress: a callback for JobProgress, True for a bar, False for silence; by default
            a bar when standard error is a terminal.

    Raises:
        NodeNotFoundError: there is no such input.
        InvalidInputError: arrays or blocks do not fit together, or the function returned
            something else than expected.
        AlreadyExistsError: an output is there already.
        ConflictError: the branch moved during the job.
    """
    started = perf_counter()
    if not callable(function):
        raise InvalidInputError(f"function is {function!r}, which cannot be called")
    repository = open_shared(repo, storage)
    done = find_commit(repository, branch, idempotency_key)
    if done is not None:
        return _nothing(done, started)
    base = repository.readonly_session(Branch(branch))
    paths = [inputs] if isinstance(inputs, str) else list(inputs)
    plan = plan_blocks(
        [_describe(base, path) for path in paths],
        {path: _output(path, one) for path, one in outputs.items()},
        blocks=blocks or {},
        halo=halo or {},
        boundary=boundary,
        max_bytes=MIN_TASK_BYTES,
    )
    session = session_at(repository, branch, str(base.snapshot_id))
    _create(session, plan, overwrite=overwrite)
    name = getattr(function, "__name__", "function")
    note = CommitNote(
        operation="map_blocks",
        application=spark.conf.get("spark.app.name", "spark") or "spark",
        key=idempotency_key,
        facts={"function": name, "inputs": [one.path for one in plan.inputs]},
    )
    job = MapJob(
        base=base,
        plan=plan,
        function=function,
        writer=session.chunk_writer(),
        trim=trim,
        with_block=with_block,
    )
    size = plan.size_bytes
    with spark_executor(spark, repository, progress, job=note.job) as executor:
        made_paths = [NodePath.from_key_prefix(target.path) for target in plan.targets]
        grids = [session.node(path).array for path in made_paths]
        most = sum(prod(array.num_chunks) for array in grids if array is not None)
        sink = plan_sink(executor, repository, session, [(path, None) for path in made_paths], most)
        stored = sink.run(
            job, len(plan.cut), f"Mapping {name}", sizes=size,
            partitions=partitions_for(spark, size),
        )  # fmt: skip
        text = message or f"{name} of {', '.join(one.path for one in plan.inputs)}"
        made = commit_once(repository, session, note, text, branch=branch, metadata=metadata)
    if not made.made:
        return _nothing(made.snapshot_id, started)
    return MapBlocksResult(
        snapshot_id=made.snapshot_id,
        arrays=len(plan.targets),
        blocks=len(plan.cut),
        chunks=stored.chunks,
        bytes=stored.size_bytes,
        seconds=perf_counter() - started,
        committed=True,
    )


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class MapJob:
    """One task for each block; picklable if the function is."""

    base: Session  # read-only
    plan: BlocksPlan
    function: BlockFunction
    writer: ChunkWriter
    trim: bool
    with_block: bool

    def __call__(self, _: Files, tasks: range) -> list[Written]:
        results = [written for task in tasks for written in self._run(task)]
        self.writer.sync()
        return results

    def _run(self, task: int) -> Iterator[Written]:
        plan = self.plan
        region = dict(zip(plan.dims, plan.cut.region(task), strict=True))
        reads = {dim: self._axis(dim, part) for dim, part in region.items()}
        blocks = [self._read(one, reads) for one in plan.inputs]
        halo = {dim: (axis.before, axis.after) for dim, axis in reads.items()}
        options = {"block": Block(task, region, halo)} if self.with_block else {}
        found = self.function(*blocks, **options)
        made = (found,) if len(plan.targets) == 1 and not isinstance(found, tuple) else found
        if not isinstance(made, tuple) or len(made) != len(plan.targets):
            raise InvalidInputError(
                f"the function returned {type(found).__name__}, expected {len(plan.targets)} arrays"
            )
        for position, (target, values) in enumerate(zip(plan.targets, made, strict=True)):
            where = tuple(
                region.get(dim, slice(0, n))
                for dim, n in zip(target.dims, target.shape, strict=True)
            )
            core = self._core(target, np.asarray(values), halo, region_shape(where))
            refs = store_region(target.document, self.writer, where, core)
            yield Written(position, refs)

    def _axis(self, dim: str, part: slice) -> AxisRead:
        plan = self.plan
        size = plan.cut.shape[plan.dims.index(dim)]
        return plan_axis(part, size, plan.halo.get(dim, (0, 0)), plan.boundary.get(dim, "clip"))

    def _read(self, one: ArrayDescription, reads: Mapping[str, AxisRead]) -> npt.NDArray[Any]:
        boundary = [self.plan.boundary.get(dim, "clip") for dim in one.dims]
        path = NodePath(one.path)
        return read_block(
            lambda region: read_bounded(
                self.base, path, region, one.chunks, itemsize=max(1, one.dtype.itemsize)
            ),
            [reads[dim] for dim in one.dims],
            boundary,
        )

    def _core(
        self,
        target: Target,
        values: npt.NDArray[Any],
        halo: Mapping[str, tuple[int, int]],
        shape: tuple[int, ...],
    ) -> npt.NDArray[Any]:
        """The block without its halo, in the type of the output."""
        around = [halo.get(dim, (0, 0)) if self.trim else (0, 0) for dim in target.dims]
        expected = tuple(n + sum(pair) for n, pair in zip(shape, around, strict=True))
        if values.shape != expected:
            raise InvalidInputError(
                f"the function returned a block of shape {values.shape} for `{target.path}`,"
                f" expected {expected}"
            )
        if not np.can_cast(values.dtype, target.dtype, "same_kind"):
            raise InvalidInputError(
                f"the function returned {values.dtype} for `{target.path}`, which is {target.dtype}"
            )
        inner = tuple(slice(a, n - b) for n, (a, b) in zip(expected, around, strict=True))
        return values[inner].astype(target.dtype, copy=False)


def _describe(base: Session, path: str) -> ArrayDescription:
    where = NodePath.from_key_prefix(path)
    base.node(where)  # says what is missing
    found = Opened(base).describe(where.parent.text if where.parent else "/").arrays
    if where.name not in found:
        raise InvalidInputError(f"there is not an array at `{where}`", kind="not-an-array")
    return found[where.name]


def _output(path: str, given: Output | npt.DTypeLike) -> Output:
    made = given if isinstance(given, Output) else Output(dtype=given)
    try:
        np.dtype(made.dtype)
    except TypeError as error:
        raise InvalidInputError(f"output `{path}`: {error}") from error
    return made


def _create(session: Session, plan: BlocksPlan, *, overwrite: bool) -> None:
    """Pending arrays, and the groups above them."""
    for target in plan.targets:
        path = NodePath.from_key_prefix(target.path)
        there = session.find_node(path)
        if there is not None:
            if there.array is None:
                raise AlreadyExistsError(f"there is a group at `{path}`: it is not overwritten")
            if not overwrite:
                raise AlreadyExistsError(f"there is an array at `{path}` already; overwrite it?")
            session.delete_node(path)
        for group in path.ancestors:
            session.set_node_if_absent(group, group_document({}))
        session.set_node(path, target.document)


def _nothing(snapshot_id: str, started: float) -> MapBlocksResult:
    return MapBlocksResult(
        snapshot_id=snapshot_id,
        arrays=0,
        blocks=0,
        chunks=0,
        bytes=0,
        seconds=perf_counter() - started,
        committed=False,
    )
