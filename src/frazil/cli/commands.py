"""The table of commands: the module and function of each, and a one-line summary.

A command is loaded when it runs or shows its help: a list of them needs names and words only.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any, override

import typer
from typer.core import TyperCommand, TyperGroup
from typer.main import get_command

from frazil.cli.storage_flags import with_storage_options
from frazil.dataclass import dataclass
from frazil.lazy import load as load_name


@dataclass(frozen=True, slots=True)
class Command:
    """A function of `frazil.cli.<module>`, or the group of commands that is there (`app`)."""

    module: str
    function: str
    summary: str  # of some 57 letters: what a line has room for


COMMANDS: dict[str, Command] = {
    "init": Command("settings", "init", "Create an empty repository."),
    "status": Command("history", "status", "Summarize a repository; make it read-only or not."),
    "ls": Command("contents", "ls", "List a group."),
    "tree": Command("contents", "tree", "Show all groups and arrays."),
    "head": Command("values", "head", "Describe an array and show its first values."),
    "cat": Command("values", "cat", "Print the values of an array."),
    "read": Command("values", "read", "Write an array, or a part of it, to a file."),
    "write": Command("values", "write", "Create an array from a file, or extend one."),
    "serve": Command("serve", "serve", "Explore a repository in the browser."),
    "sql": Command("query", "sql", "Query with Spark SQL: one query, or a prompt."),
    "ingest": Command("ingest", "ingest", "Ingest NetCDF, Zarr, GRIB, TIFF or Parquet files."),
    "import-kerchunk": Command(
        "ingest", "import_kerchunk", "Create virtual arrays from kerchunk references."
    ),
    "export": Command("copy", "export", "Export to Zarr, Parquet, NetCDF, or one bundle file."),
    "import": Command("copy", "import_", "Import a bundle file."),
    "clone": Command("copy", "clone", "Copy a repository, or update a copy."),
    "rechunk": Command("pipelines", "rechunk", "Change chunks, codecs or shards of arrays."),
    "reduce": Command("pipelines", "reduce", "Compute means, sums, extremes over dimensions."),
    "map-blocks": Command(
        "pipelines", "map_blocks", "Apply your own function to blocks of arrays."
    ),
    "log": Command("history", "log", "Show the history of a branch, or draw all of it."),
    "show": Command("history", "show", "Show a commit: message, metadata, changes."),
    "diff": Command("history", "diff", "Show what changed between two versions."),
    "branch": Command("refs", "branch_app", "List, create and delete branches."),
    "tag": Command("refs", "tag_app", "List, create and delete tags."),
    "merge": Command("edit_history", "merge", "Merge a branch into another."),
    "cherry-pick": Command("edit_history", "cherry_pick", "Apply a commit to another branch."),
    "revert": Command("edit_history", "revert", "Undo a commit with a new commit."),
    "reset": Command("refs", "reset", "Move a branch to another commit."),
    "squash": Command("edit_history", "squash", "Combine a range of commits into one."),
    "ops": Command("history", "ops", "Show every operation on a repository."),
    "stats": Command("gc", "stats", "Measure storage by branch, tag and array."),
    "verify": Command("verify", "verify", "Check every file, and repair damage."),
    "expire": Command("gc", "expire", "Remove old snapshots from history."),
    "gc": Command("gc", "gc", "Delete files that no branch or tag needs."),
    "pack": Command("rewrite", "pack", "Combine small chunk objects."),
    "unpack": Command("rewrite", "unpack", "Give each packed chunk its own object again."),
    "rewrite-manifests": Command("rewrite", "rewrite_manifests", "Split manifests differently."),
    "purge": Command("purge", "purge", "Remove a path or messages from all of history."),
    "migrate": Command("copy", "migrate", "Upgrade an older repository to version 2."),
    "config": Command("settings", "config_app", "Show and change stored settings."),
    "metadata": Command("contents", "metadata_app", "Show and change a repository's metadata."),
    "flags": Command("settings", "flags_app", "Allow or forbid operations on a repository."),
    "dump": Command("contents", "dump", "Show any metadata file as JSON."),
    "repo": Command("settings", "repo_app", "Give repositories names, and choose a default."),
    "spark": Command("doctor", "spark_app", "Print the jar and settings for your own Spark."),
    "doctor": Command("doctor", "doctor", "Check Java, Spark, packages and storage."),
    "completion": Command("settings", "completion", "Print the shell's completion script."),
    "help": Command("settings", "help_", "Explain a command or a topic, such as storage."),
}
GROUPS: dict[str, tuple[str, ...]] = {
    "Look at data": ("ls", "tree", "head", "cat", "read", "serve", "sql"),
    "Put data in, take data out": (
        "init", "ingest", "import-kerchunk", "write", "export", "import", "clone",
    ),
    "Compute": ("rechunk", "reduce", "map-blocks"),
    "History": (
        "log", "show", "diff", "branch", "tag", "merge", "cherry-pick", "revert", "reset",
        "squash", "ops",
    ),
    "Maintenance": (
        "status", "stats", "verify", "expire", "gc", "pack", "unpack", "rewrite-manifests",
        "purge", "migrate",
    ),
    "Settings": ("config", "metadata", "flags"),
    "Tools": ("repo", "doctor", "dump", "spark", "completion", "help"),
}  # fmt: skip
WITH_TARGET = {"clone", "migrate"}  # to a place that may be reached in another way
WITHOUT_PLACE = {"completion", "spark", "help"}


# Examples of commands, shown at the end of each command's help.
#
# Here rather than beside the commands, so that they read as one story: a repository of weather
# data.

EXAMPLES: dict[str, tuple[str, ...]] = {
    # first steps
    "init": ("frazil init weather", "frazil init s3://bucket/weather --region eu-west-1"),
    "status": (
        "frazil status weather",
        "frazil status weather --set read-only --reason 'moving to a new bucket'",
    ),
    "ls": ("frazil ls weather", "frazil ls weather /model --tag v1"),
    "tree": ("frazil tree weather", "frazil tree s3://bucket/weather --anonymous --depth 2"),
    "head": ("frazil head weather /model/t2m",),
    "cat": (
        "frazil cat weather /model/t2m --isel time=0",
        "frazil cat weather /model/t2m --sel time=2024-01-01..2024-01-02 --sel lat=60",
    ),
    "read": (
        "frazil read weather /model/t2m -o t2m.npy",
        "frazil read weather /model/t2m --sel lat=40..60 -o rows.parquet",
    ),
    "write": (
        "frazil write weather /model/t2m t2m.npy --dims time,lat --chunks time=24",
        "frazil write weather /model/t2m more.npy --append time -m 'February'",
    ),
    "log": ("frazil log weather -n 10", "frazil log weather --graph"),
    "show": ("frazil show weather", "frazil show weather main~1 --json"),
    "diff": ("frazil diff weather v1 main", "frazil diff weather fix main --values"),
    "sql": (
        'frazil sql weather "SELECT avg(t2m) FROM repo WHERE lat > 60"',
        "frazil sql weather                # a prompt: statements end with ;",
    ),
    # files in, arrays out
    "ingest": (
        "frazil ingest 'data/*.nc' weather --concat-dim time --chunks time=24 -m January",
        "frazil ingest 's3://archive/*.nc' weather --concat-dim time --virtual",
    ),
    "import-kerchunk": ("frazil import-kerchunk weather refs.json --files-in /data",),
    "rechunk": ("frazil rechunk weather /model/t2m --chunks time=1000,lat=10",),
    "reduce": ("frazil reduce weather t2m --over time --how mean --group /model",),
    "map-blocks": (
        "frazil map-blocks weather steps.py:to_celsius /model/t2m --output /model/t2m_c=float32",
    ),
    "export": (
        "frazil export weather weather.zarr",
        "frazil export weather weather.bundle --ref main",
    ),
    "clone": (
        "frazil clone weather copy",
        "frazil clone weather s3://bucket/weather --endpoint-url http://127.0.0.1:9000",
    ),
    "import": ("frazil import weather.bundle elsewhere",),
    "migrate": ("frazil migrate weather --dry-run", "frazil migrate weather --yes"),
    # history
    "branch list": ("frazil branch list weather",),
    "branch create": ("frazil branch create weather fix v1",),
    "branch delete": ("frazil branch delete weather fix",),
    "tag list": ("frazil tag list weather",),
    "tag create": ("frazil tag create weather v1 main~1",),
    "tag delete": ("frazil tag delete weather v1 --yes",),
    "merge": ("frazil merge weather fix --into main", "frazil merge weather fix --dry-run"),
    "cherry-pick": ("frazil cherry-pick weather fix --branch main",),
    "revert": ("frazil revert weather main~1",),
    "reset": ("frazil reset weather v1 --dry-run", "frazil reset weather v1 --yes"),
    "squash": ("frazil squash weather main~5 -m 'All of January' --yes",),
    "ops": ("frazil ops weather -n 20",),
    # upkeep
    "stats": ("frazil stats weather",),
    "expire": ("frazil expire weather --older-than 90d --retain-last 10 --dry-run",),
    "gc": ("frazil gc weather --older-than 7d --dry-run", "frazil gc weather --yes"),
    "verify": ("frazil verify weather", "frazil verify weather --repair --dry-run"),
    "pack": ("frazil pack weather --small 500K",),
    "unpack": ("frazil unpack weather /model/t2m",),
    "rewrite-manifests": ("frazil rewrite-manifests weather --split time=1000",),
    "purge": ("frazil purge weather /secret --dry-run",),
    # settings
    "config show": ("frazil config show weather",),
    "config get": ("frazil config get weather caching.num_bytes_chunks",),
    "config set": (
        "frazil config set weather inline_chunk_threshold_bytes 1024",
        "frazil config set weather compression.level default",
    ),
    "metadata show": ("frazil metadata show weather",),
    "metadata set": ("frazil metadata set weather owner 'the weather office'",),
    "metadata unset": ("frazil metadata unset weather owner",),
    "flags list": ("frazil flags list weather",),
    "flags set": ("frazil flags set weather delete_tag off",),
    # tools
    "repo list": ("frazil repo list",),
    "repo add": (
        "frazil repo add era5 s3://bucket/era5 --region eu-west-1",
        "frazil repo add weather /data/weather --default",
    ),
    "repo remove": ("frazil repo remove era5",),
    "repo default": ("frazil repo default weather",),
    "help": ("frazil help storage", "frazil help ingest"),
    "serve": ("frazil serve weather", "frazil serve s3://bucket/weather --anonymous"),
    "dump": ("frazil dump weather/repo", "frazil dump s3://bucket/weather/repo --full"),
    "spark jar": ("frazil spark jar", "frazil spark jar --spark-home /opt/spark"),
    "spark conf": ("frazil spark conf", "frazil spark conf --spark-home /opt/spark"),
    "doctor": ("frazil doctor", "frazil doctor s3://bucket/weather"),
    "completion": ('eval "$(frazil completion bash)"', "frazil completion zsh > ~/.zfunc/_frazil"),
}


def epilog(command: str) -> str | None:
    """The end of a command's help; lines stay as they are."""
    lines = EXAMPLES.get(command)
    if lines is None:
        return None
    return "\b\nExamples:\n" + "\n".join(f"  {line}" for line in lines)


# Commands that are loaded on first use, so that `frazil --help` is fast.

# plain help: rich alone would double the time to show it
PLAIN: dict[str, Any] = {
    "add_completion": False,
    "pretty_exceptions_enable": False,
    "rich_markup_mode": None,
}


# Typer converts values with pydantic, whose import takes as long as that of numpy. Text is text
# without it, and so are values that are as they should be; the rest is typer's, with its messages.


_NUMBER = re.compile("[0-9]{1,18}")


class _PlainValues:
    """Stands for what typer converts the values of one parameter with, until it is needed."""

    def __init__(self, of_typer: Callable[[], Any], annotation: Any, info: Any) -> None:
        self._of_typer = of_typer
        self._annotation = annotation if info.parser is None else None
        self._least, self._most = info.min, info.max

    def coerce(self, value: Any, param: Any, ctx: Any) -> Any:
        if value is None:
            return () if param.multiple or param.nargs == -1 else None
        if type(value) is self._annotation:  # text, or a default: all that is typed is text
            return value
        if self._annotation == list[str] and isinstance(value, list | tuple):
            return list(value)
        if self._annotation is int and self._is_in_range(value):
            return int(value)
        return self._of_typer().coerce(value, param=param, ctx=ctx)

    def _is_in_range(self, value: Any) -> bool:
        if not (isinstance(value, str) and _NUMBER.fullmatch(value)):
            return False
        return (self._least is None or int(value) >= self._least) and (
            self._most is None or int(value) <= self._most
        )


def _prepare(params: list[Any]) -> list[Any]:
    """Parameters with natural words in help, which convert plain values themselves.

    Those of a typer without pydantic stay as they are.
    """
    for param in params:
        described = getattr(param, "type_descriptor", None)
        if described is not None and "get_runtime_param" not in vars(param):
            plain = _PlainValues(
                param.get_runtime_param, described.annotation, described.parameter_info
            )
            param.get_runtime_param = partial(_same, plain)
            if param.param_type_name == "argument":
                param.metavar = param.metavar or str(param.name).upper()
                param.display_type_rich = _no_word
            else:
                param.display_type = partial(_word, param, param.display_type)
    return params


# What stands for the value of an option in help, by the option's name; others have their type's.
_WORDS = {
    "branch": "BRANCH",
    "concat_dim": "NAME",
    "group": "PATH",
    "host": "ADDRESS",
    "idempotency_key": "KEY",
    "paths": "PATH",
    "refs": "REF",
    "root": "PATH",
    "tag": "TAG",
    "variables": "NAME",
}
_WORDS_OF_TYPES = {int: "N", float: "X", Path: "FILE"}


def _word(param: Any, of_typer: Callable[[Any], str], ctx: Any) -> str:
    described = param.type_descriptor
    if described.is_choice:
        return of_typer(ctx).strip("<>").removeprefix("list[").removesuffix("]")
    return _WORDS.get(param.name, _WORDS_OF_TYPES.get(described.annotation, "TEXT"))


def _no_word(ctx: Any) -> str:  # noqa: ARG001 -- as typer calls it
    return ""


def _same[T](value: T) -> T:
    return value


class PlainCommand(TyperCommand):
    @override
    def get_params(self, ctx: Any) -> list[Any]:
        return _prepare(super().get_params(ctx))


class PlainGroup(TyperGroup):
    @override
    def get_params(self, ctx: Any) -> list[Any]:
        return _prepare(super().get_params(ctx))


def load(name: str) -> Any:
    """A command as typer's click has it, with examples and the options of storage."""
    listed = COMMANDS[name]
    found = load_name(f"frazil.cli.{listed.module}", listed.function)
    if isinstance(found, typer.Typer):
        return _load_group(name, found)
    if name not in WITHOUT_PLACE:
        found = with_storage_options(found, target=name in WITH_TARGET)
    alone = typer.Typer(**PLAIN)
    alone.command(name, cls=PlainCommand, short_help=listed.summary, epilog=epilog(name))(found)
    return get_command(alone)


def _load_group(name: str, group: typer.Typer) -> Any:
    whole = typer.Typer(cls=PlainGroup, help=group.info.help, no_args_is_help=True, **PLAIN)
    for each in group.registered_commands:
        if each.callback is not None and each.name is not None:
            made = each.callback if name in WITHOUT_PLACE else with_storage_options(each.callback)
            shown = epilog(f"{name} {each.name}")
            whole.command(each.name, cls=PlainCommand, epilog=shown)(made)
    group_command = get_command(whole)
    group_command.name = name
    return group_command


class Commands(Mapping[str, Any]):
    """All there are, by name; each is made when it is asked for, once."""

    def __init__(self) -> None:
        self._made: dict[str, Any] = {}

    def __getitem__(self, name: str) -> Any:
        if name not in COMMANDS:
            raise KeyError(name)
        if name not in self._made:
            self._made[name] = load(name)
        return self._made[name]

    def __iter__(self) -> Iterator[str]:
        return iter(COMMANDS)

    def __len__(self) -> int:
        return len(COMMANDS)


class LoadingGroup(PlainGroup):
    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.commands: Any = Commands()

    @override
    def list_commands(self, ctx: Any) -> list[str]:
        return list(COMMANDS)

    @override
    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        return self.commands.get(cmd_name)

    @override
    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Commands by group, in columns of one width."""
        width = max(map(len, COMMANDS))
        for title, names in GROUPS.items():
            with formatter.section(title):
                formatter.write_dl([(name.ljust(width), COMMANDS[name].summary) for name in names])
