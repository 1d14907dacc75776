"""Repositories, sessions, differences and histories as notebooks show them.

What a notebook shows is read from the store: branches and tags, the last commits, the tree. That
must not fail, or take long: errors leave a part out, and long lists are cut off.
"""

from collections.abc import Iterable, Mapping, Sequence
from itertools import islice
from typing import Any

from frazil.clock import to_datetime
from frazil.describe.tree import nodes_below, tree_lines
from frazil.engine.refs.version import Branch
from frazil.engine.repository import Repository
from frazil.engine.session.session import Session
from frazil.errors import IcechunkError
from frazil.format.generation import CURRENT
from frazil.format.records import View, fields_of
from frazil.ids import SnapshotId
from frazil.paths import ROOT

_SHOWN_REFS = 20
_SHOWN_COMMITS = 5
_SHOWN_NODES = 100
SHOWN_ENTRIES = 10
_SHORT_ID = 8


def _settings_view(repository: Repository, storage: object) -> View:
    """Shows only those fields of the configuration that differ from the defaults."""
    fields, generation = fields_of(repository.config), repository.generation
    given = [(name, value) for name, value in fields.fields if value is not None]
    version = f"v{generation.spec_version}" if generation in CURRENT else str(generation)
    shown = View(fields.title, given) if given else "defaults"
    return View(f"frazil.Repository ({version})", [("storage", repr(storage)), ("config", shown)])


def repository_view(repository: Repository, storage: object) -> View:
    """Shows the storage and settings, branches and tags, the last commits of main and its tree."""
    view = _settings_view(repository, storage)
    more = list[tuple[str, object]]()
    try:
        more.append(("branches", _refs(repository.branches())))
        if tags := repository.tags():
            more.append(("tags", _refs(tags)))
        commits = list(islice(repository.ancestry(Branch("main")), _SHOWN_COMMITS))
        lines = [
            (f"{to_datetime(each.flushed_at_us):%Y-%m-%d %H:%M} {str(each.id)[:_SHORT_ID]}",
             each.message.partition("\n")[0])
            for each in commits
        ]  # fmt: skip
        more.append(("last commits on main", View("", lines, is_open=True)))
        more.append(("tree of main", tree_text(repository.readonly_session(Branch("main")))))
    except IcechunkError as error:
        more.append(("not shown", str(error)))
    return View(view.title, [*view.fields, *more])


def _refs(refs: Mapping[str, SnapshotId]) -> View:
    names = sorted(refs, key=lambda name: (name != "main", name))
    lines = [(name, str(refs[name])[:_SHORT_ID]) for name in names[:_SHOWN_REFS]]
    if len(names) > _SHOWN_REFS:
        lines.append(("...", f"{len(names) - _SHOWN_REFS} more"))
    return View("", lines, is_open=True)


def tree_text(session: Session) -> str:
    """The first nodes of a session, drawn; always more than one line."""
    nodes = [node for node in nodes_below(session, ROOT) if node.path != ROOT]
    lines = tree_lines(nodes[:_SHOWN_NODES], ROOT)
    if len(nodes) > _SHOWN_NODES:
        lines.append(f"... {len(nodes) - _SHOWN_NODES} more")
    return "\n".join(["/", *(lines or ["(empty)"])])


def session_view(
    title: str,
    *,
    read_only: bool,
    snapshot_id: str,
    branch: str | None,
    has_uncommitted_changes: bool | None = None,
) -> View:
    """Shows a branch and uncommitted changes only where there can be any."""
    fields: list[tuple[str, object]] = [("read_only", read_only), ("snapshot_id", snapshot_id)]
    if branch is not None:
        fields.append(("branch", branch))
    if has_uncommitted_changes is not None and not read_only:
        fields.append(("has_uncommitted_changes", has_uncommitted_changes))
    return View(f"frazil.{title}", fields)


def session_contents(view: View, session: Session, changes: View | None) -> View:
    """Adds what is uncommitted, and the tree."""
    more: list[tuple[str, object]] = [] if changes is None else [("uncommitted changes", changes)]
    try:
        more.append(("tree", tree_text(session)))
    except IcechunkError as error:
        more.append(("not shown", str(error)))
    return View(view.title, [*view.fields, *more])


def diff_view(title: str, sections: Mapping[str, Sequence[str]]) -> View:
    """Only what there is."""
    shown: list[tuple[str, object]] = [
        (name, "\n".join([*lines, ""]).rstrip() if len(lines) > 1 else lines[0])
        for name, lines in sections.items()
        if lines
    ]
    return View(title, shown or [("changes", "none")])


def entries_view(title: str, entries: Iterable[Any], *, more: bool) -> View:
    """The next entries of a history: one line for each."""
    lines = [_entry(each) for each in entries]
    if more:
        lines.append(("...", "more"))
    return View(title, lines or [("entries", "none left")])


def _entry(entry: Any) -> tuple[str, object]:
    when = getattr(entry, "written_at", None) or getattr(entry, "updated_at", None)
    at = f"{when:%Y-%m-%d %H:%M:%S}" if when is not None else ""
    if hasattr(entry, "message"):
        return f"{at} {entry.id[:_SHORT_ID]}", entry.message.partition("\n")[0]
    kind = getattr(entry, "kind", entry)
    facts = {name: getattr(kind, name) for name in getattr(type(kind), "__slots__", ())}
    text = ", ".join(f"{name} {value}" for name, value in facts.items())
    return f"{at} {type(kind).__name__}", text or "-"
