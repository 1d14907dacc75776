"""Commands whose work Spark's executors can do: the option, and what does the work."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from frazil.maintenance.executor import Executor
    from frazil.repo.repository import Repository

OnSpark = Annotated[
    bool, typer.Option("--spark", help="Let Spark's executors do the work, with the same result.")
]


def spark_session(command: str) -> Any:
    """A quiet SparkSession of this command, or the one that is there."""
    from frazil.cli.output import silence_logs
    from frazil.spark.session import session

    silence_logs()
    return session(app_name=f"frazil {command}")


@contextmanager
def scattered(repository: "Repository", command: str, *, on_spark: bool) -> Iterator["Executor"]:
    """Executor of work on many files: threads, or Spark. A bar shows it on a terminal."""
    if on_spark:
        from frazil.spark.maintenance.executor import SparkExecutor
        from frazil.spark.maintenance.files import ExecutorFiles
        from frazil.spark.runtime.progress import progress_callback

        with progress_callback(None) as tell_spark:
            files = ExecutorFiles.of(repository)
            yield SparkExecutor(spark_session(command), files, tell_spark)
        return
    from frazil.cli.output import progress_bar
    from frazil.maintenance.executor import ThreadExecutor
    from frazil.maintenance.quiet_files import quiet_files

    with progress_bar() as tell:
        yield ThreadExecutor(quiet_files(repository), tell)
