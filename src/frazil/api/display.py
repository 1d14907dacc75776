"""Repositories, sessions and stores as notebooks show them. Nothing is read for it."""

from frazil.engine.repository import Repository
from frazil.format.generation import CURRENT
from frazil.format.records import View, fields_of


def repository_view(repository: Repository, storage: object) -> View:
    """Shows only those fields of the configuration that differ from the defaults."""
    fields, generation = fields_of(repository.config), repository.generation
    given = [(name, value) for name, value in fields.fields if value is not None]
    version = f"v{generation.spec_version}" if generation in CURRENT else str(generation)
    shown = View(fields.title, given) if given else "defaults"
    return View(f"frazil.Repository ({version})", [("storage", repr(storage)), ("config", shown)])


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
