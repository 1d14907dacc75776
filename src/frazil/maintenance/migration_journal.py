"""Journal of the old files that a migration in place keeps until it is confirmed.

It is written before anything else, so that a migration that resumes an interrupted one can tell
old files from new ones.
"""

import json
from collections.abc import Iterable
from dataclasses import dataclass

from frazil.errors import FormatError, ObjectNotFoundError
from frazil.objectstore.protocol import ObjectStore

JOURNAL = "migration/old-files.json"


@dataclass(frozen=True, slots=True)
class Journal:
    generation: str
    keys: tuple[str, ...]  # in the order in which they should go


def read_journal(store: ObjectStore) -> Journal | None:
    try:
        data = store.get(JOURNAL).data
    except ObjectNotFoundError:
        return None
    try:
        match json.loads(bytes(data)):
            case {"generation": str(generation), "keys": list(keys)}:
                return Journal(generation, tuple(str(key) for key in keys))
    except (ValueError, RecursionError):
        pass
    raise FormatError("the list of old files is damaged", where=JOURNAL)


def write_journal(store: ObjectStore, generation: str, keys: Iterable[str]) -> Journal:
    """Adds keys to those of an earlier try. Refs come first: without them the rest is not read."""
    known = read_journal(store)
    every = {*(() if known is None else known.keys), *keys}
    journal = Journal(generation, tuple(sorted(every, key=lambda key: (not _is_ref(key), key))))
    if journal != known:
        document = {"generation": journal.generation, "keys": journal.keys}
        store.put(JOURNAL, json.dumps(document, indent=1).encode())
        store.sync()
    return journal


def _is_ref(key: str) -> bool:
    return key.startswith(("r/", "refs/"))
