"""What a repository, a session and a store look like in a notebook. Nothing is read for it."""

from frazil.format.config import RepositoryConfig
from frazil.format.generation import CURRENT, Generation
from frazil.format.records import View, fields_of


def repository_view(*, storage: object, config: RepositoryConfig, generation: Generation) -> View:
    """Of the configuration only what differs from the defaults."""
    whole = fields_of(config)
    given = [(name, value) for name, value in whole.fields if value is not None]
    known = f"v{generation.spec_version}" if generation in CURRENT else str(generation)
    return View(
        f"frazil.Repository ({known})",
        [("storage", repr(storage)), ("config", View(whole.title, given) if given else "defaults")],
    )


def session_view(
    title: str,
    *,
    read_only: bool,
    snapshot_id: str,
    branch: str | None,
    has_uncommitted_changes: bool | None = None,
) -> View:
    """A branch and changes only where there can be any."""
    fields: list[tuple[str, object]] = [("read_only", read_only), ("snapshot_id", snapshot_id)]
    if branch is not None:
        fields.append(("branch", branch))
    if has_uncommitted_changes is not None and not read_only:
        fields.append(("has_uncommitted_changes", has_uncommitted_changes))
    return View(f"frazil.{title}", fields)
