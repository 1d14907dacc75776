"""Words that a shell completes: repositories, branches, tags, paths of nodes."""

from collections.abc import Iterable, Mapping
from typing import Any

from frazil.cli.options import DEFAULT_REPO
from frazil.cli.repositories import chosen_version, known_repositories, open_repository

type Params = Mapping[str, Any]
"""Arguments and options that are on the line already."""


def repositories(_: Params, incomplete: str) -> list[str]:
    """Names; folders are completed by the shell itself."""
    return _begin(known_repositories().by_name, incomplete)


def branches(params: Params, incomplete: str) -> list[str]:
    return _begin(_repository(params).branches(), incomplete)


def tags(params: Params, incomplete: str) -> list[str]:
    return _begin(_repository(params).tags(), incomplete)


def refs(params: Params, incomplete: str) -> list[str]:
    repository = _repository(params)
    return _begin({*repository.branches(), *repository.tags()}, incomplete)


def paths(params: Params, incomplete: str) -> list[str]:
    """Paths one level further than what is typed, as a shell completes folders."""
    repository = _repository(params)
    chosen = {name: params.get(name) for name in ("branch", "tag", "snapshot")}
    session = repository.readonly_session(chosen_version(repository, **chosen))
    slash = "" if not incomplete or incomplete.startswith("/") else "/"
    depth = f"{slash}{incomplete}".count("/") or 1
    found = {
        node.path.text + ("" if node.is_array else "/")
        for node in session.nodes()
        if len(node.path.segments) == depth
    }
    typed = f"{slash}{incomplete}" or "/"
    return [each.removeprefix(slash) for each in _begin(found, typed)]


def _repository(params: Params) -> Any:
    return open_repository(params.get("repo") or DEFAULT_REPO)


def _begin(names: Iterable[str], incomplete: str) -> list[str]:
    return sorted(name for name in names if name.startswith(incomplete))
