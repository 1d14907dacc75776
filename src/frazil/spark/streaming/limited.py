"""The stream since PySpark 4.2, which asks how much a batch may take."""

from typing import override

from frazil.ids import SnapshotId
from frazil.spark.streaming.reader import CommitStream, JsonOffset

try:
    from pyspark.sql.streaming.datasource import (
        ReadAllAvailable,
        ReadLimit,
        ReadMaxFiles,
        SupportsTriggerAvailableNow,
    )

    HAS_LIMITS = True
except ImportError:  # PySpark 4.1: the class below is of no use there
    ReadAllAvailable = ReadLimit = ReadMaxFiles = SupportsTriggerAvailableNow = object  # type: ignore[assignment,misc]  # stand-ins
    HAS_LIMITS = False


class LimitedCommitStream(CommitStream, SupportsTriggerAvailableNow):
    _target: SnapshotId | None = None  # of Trigger.AvailableNow: the tip when the query began

    @override
    def latestOffset(  # type: ignore[override]  # as since 4.2
        self, start: JsonOffset, limit: ReadLimit
    ) -> JsonOffset:
        # Spark's limits are of a fixed set; that of files stands for commits
        most = limit.max_files if isinstance(limit, ReadMaxFiles) else None
        return self.next_offset(start, until=self._target, limit=most)

    @override
    def getDefaultReadLimit(self) -> ReadLimit:
        most = self.stream.max_commits
        return ReadAllAvailable() if most is None else ReadMaxFiles(most)

    @override
    def reportLatestOffset(self) -> JsonOffset:
        return super().latestOffset()

    @override
    def prepareForTriggerAvailableNow(self) -> None:
        self._target = self.open_repository().lookup_branch(self.branch)
