"""Staged rows into one commit: the end of every write of rows through the data source.

    few rows      session -> layout -> chunks, in this process -> commit
    many rows     session -> layout -> boxes; executors make the chunks of each box -> commit
                  (after they have cut the rows, where each box has some of most pieces)
    many chunks   ... ; executors write manifests of their references -> commit

Many rows wait as a state in the repository's storage, known by the job that the Java side named:
the table of pieces, and little else. What can be computed of it is computed again by the tasks'
plan. Nothing in it is code. `write_tasks` has the tasks.
"""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property
from math import prod

import pyarrow as pa
from pyspark.sql.types import StructType

from frazil.engine.merge.rebase import Rebasing
from frazil.engine.merge.solver import Policy
from frazil.engine.refs.version import Branch, Exactly
from frazil.engine.repository import Repository
from frazil.engine.session.session import Session
from frazil.errors import ConflictError, ObjectNotFoundError, StorageError
from frazil.flatbuf.flexbuffers import Json
from frazil.format.chunk_index import Box as ChunkBox
from frazil.ids import SnapshotId
from frazil.objectstore.protocol import ObjectStore
from frazil.paths import NodePath
from frazil.spark.runtime.commits import CommitNote, Committed, commit_once, find_commit, session_at
from frazil.spark.runtime.stored_refs import CellTarget, attach_manifests, plan_target
from frazil.spark.writing.assembly import (
    MOST_READS,
    Box,
    Spans,
    assemble,
    find_spans,
    plan_boxes,
    reads_of,
)
from frazil.spark.writing.blocks import KnownDimension
from frazil.spark.writing.layout import plan_layout
from frazil.spark.writing.options import NewArrays, WriteMode, WriteOptions
from frazil.spark.writing.session import (
    Assembly,
    StoredChunks,
    Written,
    adopt_node_ids,
    apply_layout,
    merge_chunks,
    prepare,
    truncate,
    write_coordinates,
)
from frazil.spark.writing.stage import (
    count_rows,
    dump_pieces,
    find_coordinates,
    job_key,
    load_pieces,
)

APPLICATION = "spark"
_STATE, _BLOCKS = b"frazil.write", b"frazil.blocks"  # in the metadata of the pieces of a state
TRIES = 10  # of a write that is planned again if others commit at the same time
_VERBS = {
    WriteMode.CREATE: "Create",
    WriteMode.APPEND: "Append to",
    WriteMode.OVERWRITE: "Overwrite",
    WriteMode.REGION: "Write into",
    WriteMode.UPSERT: "Update",
    WriteMode.INSERT: "Insert into",
}


@dataclass(frozen=True, slots=True, eq=False)
class Commit:
    """Description that a write stores in its commit."""

    options: WriteOptions
    application: str
    key: str | None
    facts: Mapping[str, Json]

    def make(self, repository: Repository, session: Session, written: Written) -> Committed:
        options, native = self.options, self.options.native
        command = None if native is None else native.command
        verb = _VERBS[options.mode] if command is None else command.capitalize()
        note = CommitNote(
            operation="write",
            application=self.application,
            key=self.key,
            facts={
                "mode": str(options.mode),
                "rows": written.rows,
                "chunks": written.chunks,
                **self.facts,
            },
        )
        return commit_once(
            repository,
            session,
            note,
            options.message or f"{verb} {options.group}",
            branch=options.branch,
            metadata=options.metadata,
            rebasing=Rebasing(Policy()) if options.rebases else None,
            # rows may say what is there already, and the key of the commit must be found later
            allow_empty=True,
        )


@dataclass(frozen=True, slots=True, eq=False)
class RowsCommit:
    """A commit of staged rows. Without a `base` it is planned on what the branch holds then."""

    commit: Commit
    schema: StructType
    base: str | None = None

    @property
    def options(self) -> WriteOptions:
        return self.commit.options

    def make(self, repository: Repository, pieces: pa.Table | None) -> None:
        """Makes chunks of all rows in this process, and commits them."""
        for attempt in range(TRIES if self.base is None else 1):
            if find_commit(repository, self.options.branch, self.commit.key) is not None:
                return
            plan = self.plan(repository, pieces)
            if plan is None:
                return
            try:
                plan.merge_chunks(plan.assemble_all(repository.store))
                plan.commit(self.commit, repository)
            except ConflictError:
                if attempt == TRIES - 1 or self.base is not None:
                    raise
            else:
                return

    def plan(self, repository: Repository, pieces: pa.Table | None) -> "RowsPlan | None":
        """Everything but the chunks; None if there is nothing to commit."""
        options = self.options
        session = (
            repository.writable_session(options.branch)
            if self.base is None
            else session_at(repository, options.branch, self.base)
        )
        return plan_rows(repository, session, self.schema, options, pieces)


def plan_rows(
    repository: Repository,
    session: Session,
    schema: StructType,
    options: WriteOptions,
    pieces: pa.Table | None,
    *,
    box_bytes: int | None = None,
) -> "RowsPlan | None":
    """Lets the session have the arrays as they will be; None if there is nothing to commit."""
    native = options.native
    replaces = options.mode is WriteMode.OVERWRITE and native is not None and native.in_place
    if replaces:
        there = prepare(session, schema, options).target.dimensions
        truncate(session, options.group, schema.names)
        options = replace(options, new=_keep_order(options.new, there))
    prepared = prepare(session, schema, options)
    if pieces is None and not prepared.target.creates and not replaces:
        return None
    columns = {d.name: d.column for d in prepared.target.dimensions}
    found = find_coordinates(repository.store, pieces, columns)
    layout = plan_layout(prepared.target, prepared.documents, found, options.new)
    base = None
    if not replaces and not prepared.target.creates:
        base = repository.readonly_session(Exactly(readable_snapshot(repository, session)))
    inserts = options.mode is WriteMode.INSERT
    assembly = Assembly(layout, session.chunk_writer(), base, keeps_values=inserts)
    apply_layout(session, prepared.target, layout, options.group_attrs)
    spans = None if pieces is None else find_spans(layout, pieces)
    return RowsPlan(session, assembly, pieces, spans, box_bytes)


def _keep_order(new: NewArrays, there: Sequence[KnownDimension]) -> NewArrays:
    """Coordinates that descend go on to do so when their values are replaced."""
    descending = {
        each.name: "descending"
        for each in there
        if each.has_coordinate and len(each.values) > 1 and each.values[0] > each.values[-1]
    }
    return replace(new, order={**descending, **new.order})


@dataclass(eq=False)
class RowsPlan:
    """Chunks to be made of staged rows, and the session that gets their references."""

    session: Session
    assembly: Assembly
    pieces: pa.Table | None
    spans: Spans | None
    box_bytes: int | None
    written: Written | None = None  # chunks that the session has got

    @cached_property
    def boxes(self) -> list[Box]:
        return [] if self.spans is None else plan_boxes(self.spans, self.box_bytes)

    @property
    def needs_cuts(self) -> bool:
        """True if making chunks would read rows too often (assembly)."""
        return self.spans is not None and reads_of(self.spans, self.boxes) > MOST_READS

    @property
    def most_chunks(self) -> int:
        """Chunks that may be made; rows may be for fewer."""
        layout = self.assembly.layout
        return sum(
            prod(layout.chunk_box(array, box).sides)
            for box in self.boxes
            for array in layout.arrays
        )

    def arrays(self) -> list[tuple[NodePath, ChunkBox]]:
        """Arrays that the chunks go to, and the part of each."""
        layout, spans = self.assembly.layout, self.spans
        if spans is None:
            return []
        first, last = spans.low.min(axis=0).tolist(), (spans.high.max(axis=0) + 1).tolist()
        blocks = list(zip(first, last, strict=True))
        boxes = [layout.chunk_box(array, blocks) for array in layout.arrays]
        return list(zip(layout.paths, boxes, strict=True))

    def targets(self) -> tuple[CellTarget, ...]:
        """Manifests of the arrays that the chunks go to."""
        return tuple(plan_target(self.session, path, box) for path, box in self.arrays())

    def with_pieces(self, pieces: pa.Table) -> "RowsPlan":
        """The same rows, cut in other ways."""
        return replace(self, pieces=pieces, spans=find_spans(self.assembly.layout, pieces))

    def assemble(self, store: ObjectStore, box: Box) -> Iterator[StoredChunks]:
        if self.pieces is not None and self.spans is not None:
            yield from assemble(store, self.pieces, self.spans, self.assembly, box)

    def assemble_all(self, store: ObjectStore) -> Iterator[StoredChunks]:
        for box in self.boxes:
            yield from self.assemble(store, box)

    def merge_chunks(self, chunks: Iterable[StoredChunks]) -> None:
        self.written = merge_chunks(self.session, self.assembly.layout.paths, chunks)

    def attach_manifests(self, targets: Sequence[CellTarget], table: pa.Table) -> None:
        """Takes manifests that tasks wrote, whose targets were planned as this is."""
        adopt_node_ids(self.session, {target.path: target.node.id for target in targets})
        stored = attach_manifests(self.session, targets, table, None)
        self.written = Written(stored.chunks, stored.size_bytes, 0)

    def commit(self, commit: Commit, repository: Repository) -> Committed:
        write_coordinates(self.session, self.assembly.layout)
        written = self.written or Written(0, 0, 0)
        told = replace(written, rows=count_rows(self.pieces))
        return commit.make(repository, self.session, told)


def readable_snapshot(repository: Repository, session: Session) -> SnapshotId:
    """The snapshot that a session shows; with changes, one on no branch that has them."""
    if not session.has_uncommitted_changes:
        return session.snapshot_id
    changes = session.copy_changes()
    copied = session_at(repository, session.branch or "main", str(session.snapshot_id))
    copied.revise(lambda _: changes)
    return copied.flush("pending changes of a transaction")


# The state of a write of many rows


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteState:
    """Rows that wait for tasks: their pieces, their columns, and what the commit is to say.

    There is one for each round of tasks. All are planned on `base`: another grid would be other
    tasks. The mode is that of the write, since that of the write of task numbers is another one.
    """

    pieces: pa.Table
    columns: StructType
    base: str  # id of a snapshot
    mode: WriteMode
    tries: int = 1  # so often it may be planned, if others commit at the same time
    is_cut: bool = False  # whether pieces have been cut where boxes end
    key: str | None = None
    facts: Mapping[str, Json] = field(default_factory=dict)
    blocks: pa.Table | None = None  # references to chunks, which wait to become manifests
    cells: tuple[tuple[int, ...], ...] = ()  # of the manifests of each array, in chunks

    def rows_commit(self, options: WriteOptions) -> RowsCommit:
        options = replace(options, mode=self.mode)
        commit = Commit(options, APPLICATION, self.key, self.facts)
        return RowsCommit(commit, self.columns, self.base)

    def again(self, repository: Repository, options: WriteOptions) -> "WriteState":
        """The rows, to be planned on the tip that there is now."""
        base = tip_of(repository, options)
        return replace(self, base=base, tries=self.tries - 1, blocks=None, cells=())

    def save(
        self, repository: Repository, options: WriteOptions, *, epoch: int | None, round_: int
    ) -> None:
        told = {
            "columns": self.columns.json(),
            "base": self.base,
            "mode": str(self.mode),
            "tries": self.tries,
            "is_cut": self.is_cut,
            "key": self.key,
            "facts": dict(self.facts),
            "cells": self.cells,
        }
        metadata = {**self.pieces.schema.metadata, _STATE: json.dumps(told).encode()}
        if self.blocks is not None:
            metadata[_BLOCKS] = dump_pieces(self.blocks)
        data = dump_pieces(self.pieces.replace_schema_metadata(metadata))
        repository.store.put(_state_key(options, epoch, round_), data)
        repository.store.sync()

    @classmethod
    def find(cls, store: ObjectStore, options: WriteOptions) -> "WriteState | None":
        """The state of the round that the options tell; None if nothing waits."""
        native = options.native
        if native is None:
            return None
        try:
            data = store.get(_state_key(options, native.epoch, native.round)).data
        except ObjectNotFoundError:
            return None
        pieces = load_pieces(data)
        metadata = dict(pieces.schema.metadata)
        told, blocks = json.loads(metadata.pop(_STATE)), metadata.pop(_BLOCKS, None)
        return cls(
            pieces=pieces.replace_schema_metadata(metadata),
            columns=StructType.fromJson(json.loads(told["columns"])),
            base=told["base"],
            mode=WriteMode(told["mode"]),
            tries=told["tries"],
            is_cut=told["is_cut"],
            key=told["key"],
            facts=told["facts"],
            blocks=None if blocks is None else load_pieces(blocks),
            cells=tuple(tuple(each) for each in told["cells"]),
        )

    @staticmethod
    def delete(
        store: ObjectStore, options: WriteOptions, *, epoch: int | None, round_: int
    ) -> None:
        if options.native is not None:
            with suppress(StorageError):  # garbage collection takes it
                store.delete([_state_key(options, epoch, round_)])


def tip_of(repository: Repository, options: WriteOptions) -> str:
    return str(repository.readonly_session(Branch(options.branch)).snapshot_id)


def _state_key(options: WriteOptions, epoch: int | None, round_: int) -> str:
    job = "" if options.native is None else options.native.job
    return job_key(f"{job} {epoch} {round_}")
