"""Two engines doing the same thing, and what each of them answers and shows.

Snapshots have other ids in each of two repositories, so they are named by their position among
those made so far.
"""

import builtins
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from zarr.core.buffer import default_buffer_prototype
from zarr.core.sync import sync

from tests.compat.driver import (
    INITIAL_SNAPSHOT,
    REFERENCE,
    Engine,
    Plain,
    plain_diff,
    plain_snapshot,
)

UNKNOWN_SNAPSHOT = "AAAAAAAAAAAAAAAAAAA0"
VIRTUAL = 2  # ChunkType.virtual
DIFFERS_BETWEEN_TWINS = frozenset({"written_at", "updated_at", "backup_path"})
# Fields of the ops log that name snapshots or say what was done
UPDATE_FIELDS = (
    *("name", "branch", "previous_snap_id", "new_snap_id", "from_version", "to_version"),
    *("id", "new_value"),
)


@dataclass(slots=True)
class Side:
    """An engine and its repository. `ids` are those of the snapshots, in the order they came."""

    engine: Engine
    storage: Any
    repo: Any
    ids: list[str] = field(default_factory=lambda: [INITIAL_SNAPSHOT])

    def id_at(self, position: int) -> str:
        """-1 is a snapshot that does not exist."""
        return UNKNOWN_SNAPSHOT if position < 0 else self.ids[position % len(self.ids)]

    def reopened(self) -> Any:
        return self.engine.module.Repository.open(self.storage)


@dataclass(frozen=True, slots=True)
class Answer:
    """What a call came to. `error` is the class and the kind; `value` names no snapshot by id."""

    error: tuple[str, str | None] | None
    value: object

    @property
    def failed(self) -> bool:
        return self.error is not None

    @property
    def plain(self) -> object:
        return self.error, self.value


def ask(side: Side, call: Callable[[Side], object]) -> Answer:
    try:
        return Answer(None, named(call(side), side.ids))
    except Exception as error:  # noqa: BLE001 -- whatever is raised is what is compared
        return Answer((known_name(error), getattr(error, "kind", None)), details(error, side.ids))


def known_name(error: Exception) -> str:
    """The nearest class that a handler written for the reference can name."""
    names = [cls.__name__ for cls in type(error).__mro__]
    known = (REFERENCE.module, builtins)
    return next(name for name in names if any(hasattr(module, name) for module in known))


def details(error: Exception, ids: list[str]) -> object:
    """The facts an error carries beside its message."""
    facts = {name: getattr(error, name, None) for name in ("expected_parent", "actual_parent")}
    conflicts = getattr(error, "conflicts", ())
    return named(
        {
            **facts,
            "snapshot": getattr(error, "snapshot", None),
            "conflicts": sorted(
                (int(one.conflict_type), one.path, repr(one.conflicted_chunks)) for one in conflicts
            ),
        },
        ids,
    )


def named(value: object, ids: list[str]) -> object:
    """The value with snapshots named by position, and times and paths by whether they are there."""
    match value:
        case dict():
            return {
                key: inner is not None if key in DIFFERS_BETWEEN_TWINS else named(inner, ids)
                for key, inner in value.items()
            }
        case tuple() if not value:  # what a function of the reference without an answer returns
            return None
        case list() | tuple():
            return [named(inner, ids) for inner in value]
        case str() if value in ids:
            return ids.index(value)
        case _:
            return value


# --- what can be seen -------------------------------------------------------------------------


def chunk_of(key: str) -> tuple[str, list[int]] | None:
    path, found, index = f"/{key}".rpartition("/c")
    if not found or key.endswith("zarr.json"):
        return None
    return path or "/", [int(part) for part in index.split("/") if part]


def seen_in(session: Any) -> Plain:
    """Every key with its bytes; for virtual chunks, that they are.

    The reference lists chunks outside the grid that it does not show.
    """
    store = session.store

    async def collect() -> Plain:
        found: Plain = {}
        for key in sorted([key async for key in store.list()]):
            chunk = chunk_of(key)
            if chunk and int(session.chunk_type(*chunk)) == VIRTUAL:
                found[key] = "virtual"
            elif (data := await store.get(key, default_buffer_prototype())) is not None:
                found[key] = data.to_bytes()
        return found

    found = sync(collect())
    return {**found, "virtual locations": sorted(session.all_virtual_chunk_locations())}


def state_of(session: Any) -> Plain:
    """What a session says of itself and of its changes."""
    return {
        "read_only": session.read_only,
        "branch": session.branch,
        "changed": session.has_uncommitted_changes,
        "status": diff_of(session.status()),
    }


def diff_of(diff: Any) -> Plain:
    """Arrays of which no chunk is left are in diffs of the reference, and not in ours."""
    plain = plain_diff(diff)
    chunks = plain["updated_chunks"]
    assert isinstance(chunks, dict)
    plain["updated_chunks"] = {path: indices for path, indices in chunks.items() if indices}
    return plain


def update_of(update: Any) -> Plain:
    kind = update.kind
    return {
        "kind": type(kind).__name__,
        **{name: getattr(kind, name) for name in UPDATE_FIELDS if hasattr(kind, name)},
        "updated_at": update.updated_at,
        "backup_path": update.backup_path,
    }


def shown_by(repo: Any) -> Plain:
    """Refs, the history of each, what was done; and what an administrator can set."""
    branches = {name: repo.lookup_branch(name) for name in sorted(repo.list_branches())}
    tags = {name: repo.lookup_tag(name) for name in sorted(repo.list_tags())}
    shown: Plain = {
        "branches": branches,
        "tags": tags,
        "ancestry": {
            name: [plain_snapshot(info) for info in repo.ancestry(branch=name)] for name in branches
        },
    }
    if int(repo.spec_version) > 1:
        shown["ops log"] = [update_of(update) for update in repo.ops_log()]
        shown["metadata"] = repo.get_metadata()
        status = repo.get_status()
        available = str(status.availability).rpartition(".")[2]
        shown["status"] = (available, status.limited_availability_reason)
        flags = repo.feature_flags()
        shown["flags"] = sorted((flag.name, flag.enabled, flag.setting) for flag in flags)
    return shown
