"""Commands whose work Spark's executors can do: the option, and the executor."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from frazil.engine.repository import Repository
    from frazil.maintenance.executor import Executor

OnSpark = Annotated[
    bool, typer.Option("--spark", help="Let Spark's executors do the work, with the same result.")
]


SparkOrNot = Annotated[
    bool | None,
    typer.Option(
        "--spark/--no-spark", help="Use Spark, or this process.  [default: Spark for large data]"
    ),
]


def spark_session(command: str, *, short_lived: bool = False) -> Any:
    """A quiet SparkSession of this command, or the active one."""
    from frazil.cli.output import shown_while, silence_logs

    with shown_while("Starting Spark"):
        from frazil.spark.spark_session import session

        silence_logs()
        return session(app_name=f"frazil {command}", short_lived=short_lived)


@contextmanager
def executor_for(repository: "Repository", command: str, *, on_spark: bool) -> Iterator["Executor"]:
    """Threads or Spark, for work on many files. A bar shows progress on a terminal."""
    if on_spark:
        from frazil.spark.runtime.executor import spark_executor

        with spark_executor(spark_session(command), repository) as remote:
            yield remote
        return
    from frazil.cli.output import progress_bar
    from frazil.maintenance.executor import ThreadExecutor, quiet_files

    with progress_bar() as tell:
        yield ThreadExecutor(quiet_files(repository), tell)
