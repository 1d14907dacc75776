"""Staged rows into one commit: the end of every write of rows through the data source."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pyspark.sql.types import StructType

from frazil.flatbuf.flexbuffers import Json
from frazil.repo.rebase import Rebasing
from frazil.repo.repository import Repository
from frazil.repo.session import Session
from frazil.repo.solver import Policy
from frazil.repo.version import Exactly
from frazil.spark.jobs.commits import CommitNote, Committed, commit_once
from frazil.spark.writing.assembly import Assembly
from frazil.spark.writing.layout import Layout, plan_layout
from frazil.spark.writing.merging import find_coordinates, merge_fragments
from frazil.spark.writing.options import WriteMode, WriteOptions
from frazil.spark.writing.session import Prepared, Written, apply_layout, merge_chunks, prepare
from frazil.spark.writing.staging import Fragment

_VERBS = {
    WriteMode.CREATE: "Create",
    WriteMode.APPEND: "Append to",
    WriteMode.OVERWRITE: "Overwrite",
    WriteMode.REGION: "Write into",
    WriteMode.UPSERT: "Update",
}


@dataclass(frozen=True, slots=True, eq=False)
class Commit:
    """What a write says of itself when it commits."""

    options: WriteOptions
    application: str
    key: str | None
    facts: Mapping[str, Json]

    def make(self, repository: Repository, session: Session, written: Written) -> Committed:
        options = self.options
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
            options.message or f"{_VERBS[options.mode]} {options.group}",
            branch=options.branch,
            metadata=options.metadata,
            rebasing=Rebasing(Policy()) if options.rebases else None,
            # rows may say what is there already, and the key of the commit must be found later
            allow_empty=True,
        )


def write_fragments(
    repository: Repository,
    session: Session,
    schema: StructType,
    options: WriteOptions,
    fragments: Sequence[Fragment],
) -> Written | None:
    """Everything but the commit; None if there is nothing to commit."""
    prepared = prepare(session, schema, options)
    if not fragments and not prepared.target.creates:
        return None
    columns = {d.name: d.column for d in prepared.target.dimensions}
    found = find_coordinates(repository.store, fragments, columns)
    layout = plan_layout(prepared.target, prepared.documents, found, options.new)
    assembly = make_assembly(repository, session, prepared, layout)
    apply_layout(session, prepared.target, layout, options.group_attrs)
    results = merge_fragments(repository.store, fragments, assembly)
    return merge_chunks(session, layout.paths, results)


def make_assembly(
    repository: Repository, session: Session, prepared: Prepared, layout: Layout
) -> Assembly:
    base = None
    if not prepared.target.creates:
        base = repository.readonly_session(Exactly(session.snapshot_id))
    return Assembly(layout, session.chunk_writer(), base)
