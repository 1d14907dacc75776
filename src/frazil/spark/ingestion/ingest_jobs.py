"""Descriptions of an ingest's sources; executors make them if there are many."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from frazil.engine.files.files import Files
from frazil.errors import IcechunkError
from frazil.spark.runtime.executor import JobExecutor
from frazil.spark.sources import Source, SourceDescription, describe_source

# Opening a file takes some milliseconds, starting a Spark job some hundred.
LOCAL_DESCRIPTIONS = 4
FILES_PER_TASK = 32

type Described = SourceDescription | IcechunkError


def describe_sources(
    executor: JobExecutor,
    sources: Sequence[Source],
    doing: str,
    *,
    concat_dims: tuple[str, ...],
    only: tuple[str, ...] | None,
    group: str | None,
    storage: bool,
    mark: bool,
) -> list[Described]:
    """Describes sources, in order. An error names its source and replaces its description."""
    describe = partial(
        _describe, concat_dim=concat_dims, only=only, group=group, storage=storage, mark=mark
    )
    count = len(sources)
    executor.report(doing, 0, 0)
    if count <= LOCAL_DESCRIPTIONS:
        return [describe(source) for source in sources]
    partitions = max(executor.parallelism, count // FILES_PER_TASK)
    task = _DescribeSources(tuple(sources), describe)
    parts = executor.run(task, count, doing, sizes=0, partitions=partitions)
    return [described for part in parts for described in part]


@dataclass(frozen=True, slots=True)
class _DescribeSources:
    sources: tuple[Source, ...]
    describe: Callable[[Source], Described]

    def __call__(self, _: Files, rows: range) -> list[Described]:
        return [self.describe(self.sources[row]) for row in rows]


def _describe(source: Source, **options: Any) -> Described:
    try:
        return describe_source(source, **options)
    except IcechunkError as error:
        return error
