"""Targets of statements that change something: a node of a repository, on a branch.

Names are those of names.py. The version in a name must be a branch, `main` if there is none. In the
name of what is not there yet, `@` and `branch_` always mean a branch: a misspelt one is an error,
and not the name of a new group.

A statement is one commit. If another commit was faster, the statement is carried out again on top
of it, unless both changed the same nodes.
"""

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from frazil.engine.merge.rebase import Rebasing, commit_rebasing
from frazil.engine.merge.solver import Policy
from frazil.engine.refs.refs import MAIN
from frazil.engine.refs.waiting import waiting_for
from frazil.engine.repository import Repository
from frazil.engine.session.session import Session
from frazil.errors import ConflictError, InvalidInputError, RebaseFailedError, RefNotFoundError
from frazil.flatbuf.flexbuffers import Json
from frazil.format.nodes import Node
from frazil.paths import NodePath
from frazil.spark.native.names import (
    ROOT_TABLE,
    Lookup,
    NoSuchNameError,
    Place,
    Reading,
    Settings,
    find_place,
    find_version_named,
    possible_readings,
    to_path,
)
from frazil.spark.runtime.commits import METADATA_KEY, CommitNote
from frazil.spark.table.documents import dump_document
from frazil.spark.table.metadata_tables import TABLES
from frazil.spark.table.options import Version
from frazil.spark.table.schema import quote_name

_TRIES = 10  # again of a statement, if others commit at the same time
_OF_BRANCHES = ("any", "branch")


@dataclass(frozen=True, slots=True)
class Target:
    """A node, or where one will be."""

    repository: Repository
    location: str
    path: NodePath
    branch: str
    there: bool
    is_array: bool = False

    @property
    def name(self) -> str:
        """Name in SQL, from the repository on."""
        folder = self.location.rstrip("/").rpartition("/")[2]
        parts = [folder, *(part for part in str(self.path).split("/") if part)]
        return ".".join(part if re.fullmatch(r"\w+", part) else quote_name(part) for part in parts)


def find_target(
    settings: Settings, parts: Sequence[str], *, place: Place | None = None, branch: str = MAIN
) -> Target:
    """Finds what a statement changes; `branch` is meant if the name does not say one.

    Raises NoSuchNameError if there is no repository, RefNotFoundError, InvalidInputError.
    """
    place = place or find_place(settings, parts)
    if not place.is_repository:
        raise NoSuchNameError(f"no repository at {place.location}")
    repository, rest = settings.open(place.location), place.rest
    if settings.repository is not None and rest[:1] == (ROOT_TABLE,):
        rest = rest[1:]
    said = Version() if place.ref is None else find_version_named(repository, place.ref)
    plain = Lookup(repository, Version(branch=branch) if said == Version() else said)
    selected = Lookup(repository, said)
    for reading in possible_readings(rest):
        found = (plain if reading.selector is None else selected).find(reading)
        if found is not None and reading.table is None:
            path, is_array, version = found
            branch = require_branch(version)
            return Target(repository, place.location, path, branch, there=True, is_array=is_array)
        if found is not None:
            raise InvalidInputError(f"{'.'.join(rest)!r} is a metadata table, which is only read")
    nodes, version = _read_new(plain, selected, rest)
    return Target(repository, place.location, new_path(nodes), require_branch(version), there=False)


def find_there(settings: Settings, parts: Sequence[str]) -> Target:
    """Like `find_target`, of a node that is there; raises NoSuchNameError if it is not."""
    target = find_target(settings, parts)
    if not target.there:
        raise NoSuchNameError(f"no group or array {'.'.join(parts)!r} on branch {target.branch!r}")
    return target


def _read_new(
    plain: Lookup, selected: Lookup, rest: tuple[str, ...]
) -> tuple[tuple[str, ...], Version]:
    """Nodes and version that the name of something new says."""
    for reading in possible_readings(rest):
        if reading.selector is None or reading.table is not None:
            continue
        at = next(k for k in range(len(rest)) if rest[: k + 1] != reading.nodes[: k + 1])
        if plain.find(Reading(rest[: at + 1])) is not None:
            continue  # a node is called so
        try:
            return reading.nodes, selected.version(reading.selector)
        except RefNotFoundError:
            if reading.selector.partition(":")[0] in _OF_BRANCHES:
                raise
    return rest, plain.wanted


def require_branch(version: Version) -> str:
    if version.tag is not None or version.snapshot is not None or version.as_of_us is not None:
        raise InvalidInputError("tags, snapshots and times never change: name a branch to change")
    return version.branch or MAIN


def new_path(parts: Sequence[str]) -> NodePath:
    """The path of a new group. Raises InvalidInputError for names that none can have."""
    path = to_path(parts)
    if path is None:
        raise InvalidInputError(f"{'.'.join(parts)!r} cannot be the name of a group")
    for part in parts:
        if part.removeprefix("$") in TABLES:
            raise InvalidInputError(f"{part!r} is the name of a metadata table, not of a group")
    return path


# The commit of a statement


def commit_statement(
    target: Target,
    statement: str,
    act: Callable[[Session], None],
    *,
    message: str | None = None,
    metadata: Mapping[str, Json] | None = None,
    rearranges: bool = False,
) -> str | None:
    """Commits what `act` does to a session; None if that is nothing.

    Raises ConflictError if another commit changed the same nodes meanwhile.
    """
    note = CommitNote(operation="ddl", application="spark", facts={"statement": statement})
    told = {**(metadata or {}), METADATA_KEY: note.to_json()}
    repository, branch = target.repository, target.branch
    overtaken: Session | None = None

    def attempt(number: int) -> str | None:
        nonlocal overtaken
        del number
        session = overtaken = (
            repository.rearrange_session(branch)
            if rearranges
            else repository.writable_session(branch)
        )
        act(session)
        if not session.has_uncommitted_changes:
            return None
        return str(session.commit(message or f"{statement} {target.name}", told))

    def again(policy: Policy) -> None:
        if overtaken is not None:
            _require_apart(overtaken, statement, policy)

    return commit_rebasing(
        attempt, again, Rebasing(Policy(), tries=_TRIES), waiting_for(repository.files)
    )


def _require_apart(session: Session, statement: str, policy: Policy) -> None:
    """Raises if what was committed meanwhile has to do with the changes of the session."""
    try:
        session.rebase(policy)
    except RebaseFailedError as error:
        paths = sorted({each.path for each in error.conflicts})
        raise ConflictError(
            message=f"{statement} changed nothing: another commit ({error.snapshot}) changed"
            f" {', '.join(paths)} meanwhile",
            kind="rebase-failed",
        ) from error


# Attributes of a node, which properties and comments are


def attributes_of(node: Node) -> dict[str, Any]:
    found = json.loads(node.user_data).get("attributes")
    return found if isinstance(found, dict) else {}


def set_attributes(session: Session, path: NodePath, changed: Mapping[str, Any]) -> None:
    """Sets attributes of a node, and removes those that are to be None."""
    node = session.node(path)
    document, kept = json.loads(node.user_data), attributes_of(node)
    attributes = {**kept, **changed}
    attributes = {name: value for name, value in attributes.items() if value is not None}
    if attributes != kept:
        session.set_node(path, dump_document({**document, "attributes": attributes}))


def parse_attribute(text: str) -> Any:
    """A property as an attribute: JSON, if it is that of a value; a text otherwise."""
    try:
        found = json.loads(text)
        json.dumps(found, allow_nan=False)  # 1e400 and NaN are numbers to Python
    except (ValueError, RecursionError):
        return text
    return text if found is None else found


_TOLD = {  # properties that a table or namespace has anyway
    "provider", "location", "external", "is_managed_location", "owner", "group", "array", "table",
    "branch", "tag", "snapshot", "dimensions", "attributes", "kind",
}  # fmt: skip
_TOLD_OF_ARRAYS = {"dtype", "shape", "chunks", "codecs", "fill_value", "attributes"}
_OF_NEW_TABLES = {
    "dims", "chunks", "order", "positions", "dtypes", "fill", "codecs", "attrs", "groupattrs",
    "appenddim",
}  # fmt: skip


def attribute_changes(changes: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Attributes that SET and UNSET of properties give, None for those that go."""
    found: dict[str, Any] = {}
    for each in changes:
        name = str(each["property"])
        _require_free(name)
        value = str(each.get("value") or "")
        removed = each["change"] == "unset" or (name == "comment" and not value)
        found[name] = None if removed else value if name == "comment" else parse_attribute(value)
    return found


def _require_free(name: str) -> None:
    if name in _TOLD or (name.partition(".")[0] in _TOLD_OF_ARRAYS and "." in name):
        raise InvalidInputError(f"the property {name!r} tells what there is, and cannot be set")
    if name.lower() in _OF_NEW_TABLES:
        raise InvalidInputError(
            f"the property {name!r} is one of CREATE TABLE; those that are set are attributes"
        )
