"""An entry of the ops log, in words and as JSON."""

import re

from frazil.clock import to_datetime
from frazil.format.updates import RepoStatus, Update


def operation_name(update: Update) -> str:
    """`new commit` for NewCommit."""
    words: list[str] = re.findall(r"GC|[A-Z][a-z]*", type(update.kind).__name__)
    return " ".join(word if word.isupper() else word.lower() for word in words)


def operation_details(update: Update) -> str:
    facts = _facts(update)
    match facts:
        case {"status": RepoStatus(availability=availability, reason=reason)}:
            return f"{availability.label}{f': {reason}' if reason else ''}"
        case _:
            return " ".join(f"{name}={value}" for name, value in facts.items())


def _facts(update: Update) -> dict[str, object]:
    return {field: getattr(update.kind, field) for field in type(update.kind).__slots__}


def operation_as_json(update: Update) -> dict[str, object]:
    return {
        "operation": type(update.kind).__name__,
        "updated_at": to_datetime(update.updated_at_us).isoformat(),
        "backup_path": update.backup_path,
        **_facts(update),
    }
