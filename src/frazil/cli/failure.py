"""Errors as a person at a terminal wants them: one line, and a hint where there is one."""

from dataclasses import dataclass

from frazil.errors import (
    ConflictError,
    IcechunkError,
    InternalError,
    NodeNotFoundError,
    RefNotFoundError,
    RepositoryNotFoundError,
    SnapshotNotFoundError,
)

HINTS: tuple[tuple[type[IcechunkError], str], ...] = (
    (RepositoryNotFoundError, "`frazil init PATH` makes an empty repository"),
    (RefNotFoundError, "`frazil branch list REPO` and `frazil tag list REPO` show what there is"),
    (SnapshotNotFoundError, "`frazil log REPO` shows the snapshots of a branch"),
    (NodeNotFoundError, "`frazil ls REPO` shows the groups and arrays"),
    (ConflictError, "somebody else was faster: look at `frazil log REPO`, then run it again"),
)


ENGINES = {"pyspark", "py4j"}  # known by name: importing them takes seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    message: str
    hint: str | None = None
    exit_code: int = 1

    @property
    def text(self) -> str:
        return f"error: {self.message}" + (f"\nhint: {self.hint}" if self.hint else "")


def describe(error: Exception) -> Failure:
    """What to print about `error`, and the code to exit with."""
    match error:
        case InternalError():
            return _bug(error)
        case IcechunkError():
            return Failure(
                message=_first_line(error),
                hint=next((hint for kind, hint in HINTS if isinstance(error, kind)), None),
                exit_code=3 if isinstance(error, ConflictError) else 1,
            )
        case OSError(filename=str(name), strerror=str(reason)):
            return Failure(message=f"{name}: {reason}")
        case ModuleNotFoundError(name=str(name)) if not name.startswith("frazil"):
            return Failure(
                message=f"this command needs the package {name!r}",
                hint="install frazil[spark,ingest]",
            )
        case _ if type(error).__module__.partition(".")[0] in ENGINES:
            return Failure(message=_first_line(error), hint="--debug shows all that Spark said")
        case _:
            return _bug(error)


def _bug(error: Exception) -> Failure:
    return Failure(
        message=f"unexpected {type(error).__name__}: {_first_line(error)}",
        hint="this is a bug in frazil; run the command again with --debug for the trace",
        exit_code=70,
    )


def _first_line(error: Exception) -> str:
    return next((line.strip() for line in str(error).splitlines() if line.strip()), "no message")
