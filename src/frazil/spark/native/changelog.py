"""The question `changes` of the catalog: between which snapshots CHANGES reads a table.

    {"catalog": "changes", "in": [...], "name": ..., "net": bool, "range": {
        "fromVersion": text, "toVersion": text, "fromTime": microseconds, "toTime": ...,
        "fromIncluded": bool, "toIncluded": bool}}

A version is a commit, and what it changed: FROM VERSION v1 includes the changes that v1 itself
made, as Spark has it; FROM VERSION v1 EXCLUSIVE begins after them. What is not given is the oldest
commit, and the newest of the branch.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from frazil.engine.refs.ancestry import ancestor_rows, require_row, snapshot_id
from frazil.errors import InvalidInputError
from frazil.format.repo_info import RepoInfo
from frazil.ids import SnapshotId
from frazil.spark.native.names import Asked, Found, Settings, find_named, find_version_named
from frazil.spark.table.opened import Opened, engine_version
from frazil.spark.table.options import Version, parse_options
from frazil.spark.table.scan import plan_table


@dataclass(frozen=True, slots=True)
class FoundChanges:
    """The `options` of a batch of changes, those of a stream of them, and the dimensions."""

    options: dict[str, str]
    stream: dict[str, str]
    dimensions: tuple[str, ...]


def find_changes(
    settings: Settings, parts: tuple[str, ...], asked: Mapping[str, Any], *, net: bool
) -> FoundChanges:
    """Raises NoSuchNameError, RefNotFoundError for a version that is not there."""
    last = asked.get("toVersion")
    found = find_named(settings, parts, Asked(last, None))
    if found.named.table is not None:
        raise InvalidInputError(f"the metadata table {found.named.table!r} has no changes")
    info = found.lookup.repository.repo_info()
    start, end = _find_ends(found, info, asked)
    own = {n: t for n, t in found.named.options.items() if n not in _OF_VERSION}
    ends = {"from": str(snapshot_id(info, start)), "to": str(snapshot_id(info, end))}
    branch = found.named.version.branch
    stream = {"startingSnapshot": ends["from"], **({"branch": branch} if branch else {})}
    at_end = engine_version(Version(snapshot=ends["to"]))
    table = plan_table(Opened(found.lookup.repository.readonly_session(at_end)), parse_options(own))
    return FoundChanges(
        {**own, **ends, "changes": "true", "net": "true" if net else "false"},
        stream,
        tuple(column.name for column in table.dimensions),
    )


_OF_VERSION = {"branch", "tag", "snapshot", "asOf"}


def _find_ends(found: Found, info: RepoInfo, asked: Mapping[str, Any]) -> tuple[int, int]:
    """Rows: the commits after the first, up to the second."""
    history = list(ancestor_rows(info, require_row(info, found.session.snapshot_id)))
    first, last = len(history) - 1, 0  # places in the history, newest first
    if "toVersion" in asked and not asked["toIncluded"]:
        last = 1
    if "fromVersion" in asked:
        first = _place(found, info, history, str(asked["fromVersion"]))
        first += 1 if asked["fromIncluded"] else 0
    times = [info.snapshots.flushed_at(row) for row in history]
    if "fromTime" in asked:
        begin = int(asked["fromTime"]) - (1 if asked["fromIncluded"] else 0)
        first = next((n for n, time in enumerate(times) if time <= begin), len(history))
    if "toTime" in asked:
        end = int(asked["toTime"]) - (0 if asked["toIncluded"] else 1)
        last = next((n for n, time in enumerate(times) if time <= end), len(history) - 1)
    first = min(first, len(history) - 1)  # the first commit of all makes an empty repository
    last = min(last, first)
    return history[first], history[last]


def _place(found: Found, info: RepoInfo, history: list[int], name: str) -> int:
    repository = found.lookup.repository
    version = replace(find_version_named(repository, name), as_of_us=None)
    snapshot: SnapshotId = repository.readonly_session(engine_version(version)).snapshot_id
    row = require_row(info, snapshot)
    if row not in history:
        raise InvalidInputError(
            f"version {name!r} is not in the history of {found.session.snapshot_id}: changes are"
            " those of one line of commits"
        )
    return history.index(row)
