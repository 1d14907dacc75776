"""Arguments and options that several commands share, so that they read the same everywhere."""

import re
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any

import typer

from frazil.lazy import load

DEFAULT_REPO = "@"  # stands for the default repository of `frazil repo default`


def complete(kind: str) -> Any:
    """Completion of names in the repository that is on the line; loaded when a shell asks."""

    def words(ctx: typer.Context, incomplete: str) -> list[str]:
        try:
            params = dict(ctx.params)
            if ctx.args and params.get("repo") == DEFAULT_REPO:  # an option's value is missing
                params["repo"] = ctx.args[0]
            found: list[str] = load("frazil.cli.views.completions", kind)(params, incomplete)
        except Exception:  # noqa: BLE001 -- a shell that completes must not see errors
            return []
        return found

    return words


Repo = Annotated[
    str,
    typer.Argument(
        metavar="REPO",
        default_factory=lambda: DEFAULT_REPO,
        show_default=False,
        help="A folder, a URL (s3://, gs://, az://, https://), or a name of `frazil repo list`."
        "  [default: the default repository]",
        autocompletion=complete("repositories"),
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]
DryRun = Annotated[
    bool, typer.Option("--dry-run", help="Show what would happen, and change nothing.")
]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask for confirmation.")]
Commit = Annotated[
    str,
    typer.Argument(
        metavar="COMMIT",
        help="A branch, a tag, a snapshot id, or main~1.",
        autocompletion=complete("refs"),
    ),
]
OnBranch = Annotated[
    str,
    typer.Option("--branch", help="The branch to change.", autocompletion=complete("branches")),
]
Message = Annotated[
    str | None, typer.Option("-m", "--message", help="Commit message (default: generated).")
]
IdempotencyKey = Annotated[
    str | None, typer.Option(help="Commit nothing if a commit with this key exists.")
]
Branch = Annotated[
    str | None,
    typer.Option(help="Use this branch.  [default: main]", autocompletion=complete("branches")),
]
Tag = Annotated[str | None, typer.Option(help="Use this tag.", autocompletion=complete("tags"))]
Snapshot = Annotated[
    str | None, typer.Option(metavar="ID", help="Use this snapshot; a few letters are enough.")
]
Array = Annotated[
    str,
    typer.Argument(
        metavar="PATH", help="An array, such as /model/t2m.", autocompletion=complete("paths")
    ),
]
Sel = Annotated[
    list[str] | None,
    typer.Option(
        "--sel",
        metavar="NAME=VALUES",
        help="By coordinate: lat=60, lat=40..60 with both ends, time=2024-01; may be repeated.",
    ),
]
Isel = Annotated[
    list[str] | None,
    typer.Option(
        "--isel",
        metavar="NAME=NUMBERS",
        help="By position: time=0, time=0:24 without the end, time=-1; may be repeated.",
    ),
]
Authorize = Annotated[
    list[str] | None,
    typer.Option(
        metavar="PREFIX=WORD",
        help="Virtual chunks that may be read: file:///data/=local, https://host/=http,"
        " s3://bucket/=anonymous, s3://bucket/=environment.",
    ),
]


# Moments on the command line: how long ago, or when.

_AGE_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days", "w": "weeks"}
_AGE = re.compile(r"(?P<number>\d+(?:\.\d+)?)(?P<unit>[smhdw])")


def parse_duration(text: str) -> timedelta:
    """`7d`, `36h`, `90m`, `30s`, `2w`; `0` is no time at all."""
    found = _AGE.fullmatch(text.strip())
    if text.strip() == "0":
        return timedelta()
    if found is None:
        raise typer.BadParameter(f"{text!r} is not a time span such as 7d, 36h, 90m, 30s or 2w")
    return timedelta(**{_AGE_UNITS[found["unit"]]: float(found["number"])})


def parse_moment(text: str, *, now: datetime | None = None) -> datetime:
    """So long ago, or a time as ISO 8601 has it; in UTC unless it says otherwise."""
    if _AGE.fullmatch(text.strip()):
        return (now or datetime.now(UTC)) - parse_duration(text)
    try:
        when = datetime.fromisoformat(text.strip())
    except ValueError:
        raise typer.BadParameter(
            f"{text!r} is neither a time span such as 7d nor a time such as 2026-01-31T12:00"
        ) from None
    return when if when.tzinfo else when.replace(tzinfo=UTC)


# Lengths by dimension, as typed.


def parse_lengths(texts: list[str], option: str) -> dict[str, int]:
    """`time=24,lat=90`, perhaps over several options; -1 is the whole dimension."""
    lengths = dict[str, int]()
    for part in (part for text in texts for part in text.split(",") if part):
        name, _, length = part.partition("=")
        try:
            lengths[name.strip()] = int(length)
        except ValueError:
            raise typer.BadParameter(
                f"{part!r} is not NAME=LENGTH, as in time=24,lat=90", param_hint=option
            ) from None
    return lengths


# Sizes as people write them: `500K`, `16M`, `1GiB`.

_SIZE = re.compile(r"(\d+)\s*([kmgt]?)(i?b)?", re.IGNORECASE)
_BYTE_UNITS = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40}


def parse_size(text: str) -> int:
    """Bytes; letters stand for powers of 1024."""
    found = _SIZE.fullmatch(text.strip())
    if found is None:
        raise typer.BadParameter(f"{text!r} is not a size: write 4096, 500K or 16M")
    return int(found[1]) * _BYTE_UNITS[found[2].lower()]


def count_of(count: int, noun: str) -> str:
    """`1 file`, `2 files`, `2,000 branches`."""
    if count == 1:
        return f"1 {noun}"
    return f"{count:,} {noun}{'es' if noun.endswith('ch') else 's'}"
