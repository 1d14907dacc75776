"""The ops log by the page, newest first."""

import re
from itertools import islice
from threading import Lock

from frazil.errors import FormatError
from frazil.format.updates import RepoStatus, Update
from frazil.web.explored import Explored

_OLD = "unsupported-spec-version"


class _Log:
    """As much of the log as somebody has asked for; the rest is read when it is wanted."""

    def __init__(self, explored: Explored) -> None:
        self._rest = explored.repository.ops_log()
        self._known: list[Update] = []
        self._guard = Lock()

    def page(self, offset: int, limit: int) -> tuple[list[Update], bool]:
        """And whether there is more."""
        with self._guard:
            missing = offset + limit + 1 - len(self._known)
            self._known += islice(self._rest, max(missing, 0))
            return self._known[offset : offset + limit], len(self._known) > offset + limit


def operation_page(explored: Explored, offset: int, limit: int) -> dict[str, object]:
    try:
        log = explored.recall_of(explored.info(), "ops", lambda: _Log(explored))
        updates, more = log.page(offset, limit)
    except FormatError as error:
        if explored.repository.spec_version >= 2:
            raise
        return {"available": False, "reason": str(error), "offset": 0, "more": False, "at_us": []}
    return {
        "available": True,
        "offset": offset,
        "more": more,
        "at_us": [update.updated_at_us for update in updates],
        "operation": [_words(type(update.kind).__name__) for update in updates],
        "facts": [_facts(update) for update in updates],
    }


def _words(name: str) -> str:
    """`new commit` for NewCommit."""
    words = re.findall(r"GC|[A-Z][a-z]*", name)
    return " ".join(word if word.isupper() else word.lower() for word in words)


def _facts(update: Update) -> dict[str, str]:
    kind = update.kind
    return {name: _shown(getattr(kind, name)) for name in type(kind).__slots__}


def _shown(value: object) -> str:
    if isinstance(value, RepoStatus):
        return value.availability.label + (f": {value.reason}" if value.reason else "")
    return str(value)
