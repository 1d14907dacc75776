"""A repository at a glance, in words and as JSON."""

from itertools import islice
from typing import Any

from frazil.clock import to_datetime
from frazil.errors import RefNotFoundError
from frazil.format.updates import Availability, RepoStatus
from frazil.repo.repository import Repository
from frazil.repo.spec_version import require_version_2
from frazil.repo.version import Branch


def set_standing(repository: Repository, wanted: str, reason: str | None) -> None:
    require_version_2(repository.spec_version)
    availability = next(each for each in Availability if each.label == wanted)
    repository.set_status(RepoStatus(availability, repository.clock(), reason))


def standing_as_json(repository: Repository, location: str) -> dict[str, Any]:
    branches, tags = repository.branches(), repository.tags()
    facts: dict[str, Any] = {
        "location": location,
        "generation": str(repository.generation),
        "spec_version": repository.spec_version,
        "availability": "online",
        "reason": None,
        "set_at": None,
        "branches": len(branches),
        "tags": len(tags),
        "tip": _tip(repository),
    }
    if repository.spec_version < 2:  # older ones know neither a status nor a list of snapshots
        return facts
    info = repository.repo_info()
    return facts | {
        "availability": info.status.availability.label,
        "reason": info.status.reason,
        "set_at": to_datetime(info.status.set_at_us).isoformat(),
        "snapshots": len(info.snapshots),
    }


def _tip(repository: Repository) -> dict[str, Any] | None:
    try:
        record = next(islice(repository.ancestry(Branch("main")), 1))
    except RefNotFoundError:
        return None
    return {
        "branch": "main",
        "id": str(record.id),
        "written_at": to_datetime(record.flushed_at_us).isoformat(),
        "message": record.message,
    }


def standing_as_text(facts: dict[str, Any]) -> str:
    why = f": {facts['reason']}" if facts["reason"] else ""
    counted = ("branches", "tags", "snapshots")
    holds = [_counted(facts[name], name) for name in counted if name in facts]
    lines = [
        f"repository  {facts['location']} (format {facts['generation']})",
        f"status      {facts['availability']}{why}",
        f"holds       {', '.join(holds)}",
    ]
    tip = facts["tip"]
    if tip is not None:
        message = tip["message"].partition("\n")[0]
        lines.append(f"main        {tip['id']}  {tip['written_at'][:19]}  {message}")
    return "\n".join(lines)


def _counted(count: int, name: str) -> str:
    one = {"branches": "branch", "tags": "tag", "snapshots": "snapshot"}
    return f"{count} {one[name] if count == 1 else name}"
