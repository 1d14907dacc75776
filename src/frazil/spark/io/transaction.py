"""Several writes, one commit.

    with frazil.spark.transaction(spark, repo, message="day 7") as t:
        t.write(days, mode="append")
        t.write(stations, group="stations", mode="upsert")
        zarr.open_group(t.session.store).attrs["days"] = 7

Spark's own transactions (TransactionalCatalogPlugin, since 4.2) are of one statement each.

All writes are changes of one session, on the driver. What the next write or read of executors
needs of them is stored as a snapshot on no branch; garbage collection takes it when its time has
come.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from frazil.api.session import Session
from frazil.engine.merge.rebase import Rebasing
from frazil.engine.merge.solver import Policy
from frazil.engine.repository import Repository
from frazil.errors import InvalidInputError, SessionStateError
from frazil.flatbuf.flexbuffers import Json
from frazil.spark.io.read import read
from frazil.spark.io.write import WriteResult, metadata_of, write
from frazil.spark.runtime.commits import CommitNote, commit_once
from frazil.spark.table.opened import RepositoryLike
from frazil.spark.writing.commit import readable_snapshot
from frazil.spark.writing.options import open_engine

_OF_COMMIT = ("repo", "branch", "message", "metadata", "txn", "rebase", "storage", "within")
_OF_VERSION = ("repository", "branch", "tag", "snapshot", "as_of", "storage")


class Transaction:
    """Writes that become one commit at the end of the block, or none of them.

    `snapshot_id` is that of the commit; until then, and if nothing was changed, the branch's tip
    when the transaction began.
    """

    def __init__(self, spark: SparkSession, repository: Repository, branch: str) -> None:
        self._spark = spark
        self._repository = repository
        self._session = repository.writable_session(branch)
        self._ended = False
        self.branch = branch
        self.snapshot_id = str(self._session.snapshot_id)
        self.committed = False
        self.rows = 0

    @property
    def session(self) -> Session:
        """The session itself, for zarr and xarray; what is done in it is part of the commit."""
        self._require_open()
        return Session(self._session, self._repository.config)

    def write(self, df: DataFrame, **options: Any) -> WriteResult:
        """Writes a DataFrame as `frazil.spark.write` does, with the same options but for those of
        the commit. If it raises, it has changed nothing, and the transaction can go on.
        """
        self._require_open()
        _refuse(options, _OF_COMMIT, "of the transaction")
        before = self._session.copy_changes()
        try:
            written = write(
                df, self._repository, branch=self.branch, within=self._session, **options
            )
        except BaseException:
            self._session.revise(lambda _: before)
            raise
        self.rows += written.rows
        return written

    def read(self, **options: Any) -> DataFrame:
        """A table as `frazil.spark.read` gives it, with what was written so far."""
        _refuse(options, _OF_VERSION, "of the transaction")
        return read(self._spark, self._repository, snapshot=self.flush(), **options)

    def flush(self) -> str:
        """Id of a snapshot on no branch with what was written so far; any reader takes it."""
        self._require_open()
        return str(readable_snapshot(self._repository, self._session))

    def _commit(
        self, message: str, metadata: Mapping[str, Json], *, application: str, rebase: bool
    ) -> None:
        if not self._session.has_uncommitted_changes:
            return
        note = CommitNote(
            operation="transaction", application=application, facts={"rows": self.rows}
        )
        made = commit_once(
            self._repository,
            self._session,
            note,
            message,
            branch=self.branch,
            metadata=metadata,
            rebasing=Rebasing(Policy()) if rebase else None,
        )
        self.snapshot_id, self.committed = made.snapshot_id, made.made

    def _end(self) -> None:
        self._ended = True

    def _require_open(self) -> None:
        if self._ended:
            raise SessionStateError("the transaction has ended")


def _refuse(options: Mapping[str, object], names: tuple[str, ...], whose: str) -> None:
    astray = [name for name in names if name in options]
    if astray:
        raise InvalidInputError(f"{', '.join(map(repr, astray))} is a matter {whose}")


@contextmanager
def transaction(
    spark: SparkSession,
    repo: RepositoryLike,
    *,
    branch: str = "main",
    message: str = "Transaction",
    metadata: Mapping[str, Json] | None = None,
    rebase: bool = False,
    storage: Mapping[str, object] | None = None,
) -> Iterator[Transaction]:
    """Makes all writes of a block one commit; if the block raises, there is none.

    Args:
        spark: the session that reads.
        repo: the repository to write to, or the path of its folder.
        branch: the branch that gets the commit.
        message: of the commit.
        metadata: of the commit, in addition to what is recorded under the key `frazil`.
        rebase: whether to commit on top of commits made meanwhile, if they changed other chunks.
        storage: how the bucket that `repo` names is reached, as in `frazil.s3_storage` and such.

    Raises:
        ConflictError: the branch moved since the block began.
    """
    told = metadata_of(metadata)
    begun = Transaction(spark, open_engine(repo, storage), branch)
    application = spark.conf.get("spark.app.name", "spark") or "spark"
    try:
        yield begun
        begun._commit(message, told, application=application, rebase=rebase)  # noqa: SLF001
    finally:
        begun._end()  # noqa: SLF001
