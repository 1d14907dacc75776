"""Options of streams, beside those of reading.

Spark asks for the columns before it says that it wants a stream, so `changes` must be asked for.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from enum import StrEnum

from frazil.errors import InvalidInputError
from frazil.ids import SnapshotId
from frazil.spark.options import OPTIONS, Mode, ReadOptions, Version, parse_positive
from frazil.spark.storage_options import is_storage_option
from frazil.spark.timetext import find_instants

STREAM_OPTIONS = {
    "changes": "true adds the columns _change_type, _commit_snapshot_id, _commit_timestamp",
    "startFrom": "earliest (all commits there are, by default) or latest (those to come)",
    "startingSnapshot": "id: the commits after it",
    "startingTimestamp": "ISO time: the commits since then",
    "maxCommitsPerTrigger": "at most so many commits in one batch; all by default",
    "onRewrite": "fail (by default) or restart, when the branch was reset or amended",
    "onRemoval": "fail (by default) or ignore, when a commit takes away rows; of mode rows",
}


class StartFrom(StrEnum):
    EARLIEST = "earliest"
    LATEST = "latest"


class OnRewrite(StrEnum):
    FAIL = "fail"
    RESTART = "restart"


class OnRemoval(StrEnum):
    FAIL = "fail"
    IGNORE = "ignore"


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamOptions:
    changes: bool = False
    start_from: StartFrom = StartFrom.EARLIEST
    starting_snapshot: str | None = None
    starting_us: int | None = None
    max_commits: int | None = None
    on_rewrite: OnRewrite = OnRewrite.FAIL
    on_removal: OnRemoval = OnRemoval.FAIL


def without_stream_options(options: Mapping[str, str]) -> dict[str, str]:
    """Those of reading. Raises if a name is nearly one of a stream's."""
    known, own = {name.lower() for name in OPTIONS}, {n.lower(): n for n in STREAM_OPTIONS}
    rest = {name: text for name, text in options.items() if name.lower() not in own}
    unknown = [n for n in rest if n.lower() not in known and not is_storage_option(n)]
    for name in unknown:
        close = get_close_matches(name.lower(), [*known, *own], n=1)
        if close and close[0] in own:
            raise InvalidInputError(
                f"unknown option {name!r} (did you mean {own[close[0]]!r}?);"
                f" the options of streams are {', '.join(STREAM_OPTIONS)}"
            )
    return rest


def refuse_stream_options(options: Mapping[str, str]) -> None:
    """Of a load that turned out to be no stream."""
    own = {name.lower(): name for name in STREAM_OPTIONS}
    astray = sorted(own[name.lower()] for name in options if name.lower() in own)
    if astray:
        raise InvalidInputError(
            f"option {', '.join(map(repr, astray))} is of streams: use spark.readStream"
        )


def parse_stream_options(options: Mapping[str, str]) -> StreamOptions:
    given = {name.lower(): text for name, text in options.items()}
    starts = [
        n for n in ("startFrom", "startingSnapshot", "startingTimestamp") if n.lower() in given
    ]
    if len(starts) > 1:
        raise InvalidInputError(f"options {' and '.join(starts)} exclude each other")
    snapshot = given.get("startingsnapshot")
    if snapshot is not None:
        SnapshotId.parse(snapshot)  # raises
    return StreamOptions(
        changes=wants_changes(options),
        start_from=_word(StartFrom, "startFrom", given, StartFrom.EARLIEST),
        starting_snapshot=snapshot,
        starting_us=_time(given.get("startingtimestamp")),
        max_commits=_count(given.get("maxcommitspertrigger")),
        on_rewrite=_word(OnRewrite, "onRewrite", given, OnRewrite.FAIL),
        on_removal=_word(OnRemoval, "onRemoval", given, OnRemoval.FAIL),
    )


def wants_changes(options: Mapping[str, str]) -> bool:
    given = {name.lower(): text for name, text in options.items()}
    text = given.get("changes", "false").lower()
    if text not in {"true", "false"}:
        raise InvalidInputError(f"option 'changes' is {text!r}, expected true or false")
    return text == "true"


def require_streamable(options: ReadOptions) -> None:
    if options.table is not None:
        raise InvalidInputError(
            f"table {options.table!r} is read in batches; a stream is of rows or of chunks"
        )
    if options.version != Version(branch=options.version.branch):
        raise InvalidInputError(
            "a stream follows a branch: leave out tag, snapshot and asOf, and say where it begins"
            " with startFrom, startingSnapshot or startingTimestamp"
        )
    if options.include_missing and options.mode is Mode.CHUNKS:
        raise InvalidInputError("option includeMissing means nothing to a stream")


def _word[E: StrEnum](kind: type[E], name: str, given: Mapping[str, str], default: E) -> E:
    text = given.get(name.lower(), default).lower()
    if text not in set(kind):
        words = " or ".join(map(repr, map(str, kind)))
        raise InvalidInputError(f"option {name!r} is {text!r}, expected {words}")
    return kind(text)


def _time(text: str | None) -> int | None:
    if text is None:
        return None
    instants = find_instants(text, "UTC")
    if instants is None:
        raise InvalidInputError(
            f"startingTimestamp is {text!r}, expected an ISO time like 2024-03-01T06:00:00Z"
        )
    return instants.earliest


def _count(text: str | None) -> int | None:
    if text is None:
        return None
    return parse_positive("maxCommitsPerTrigger", text)
