"""What each process did and saw, when it began and when it ended: one line of JSON each."""

import json
import os
import time
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

type Kind = Literal[
    "commit", "read", "create_tag", "delete_tag", "create_branch", "reset_branch", "delete_branch",
    "collect", "expire",
]  # fmt: skip
CANCELLED = "cancelled"  # an error for which there need be no reason
MUTATIONS: tuple[Kind, ...] = (
    "commit", "create_tag", "delete_tag", "create_branch", "reset_branch", "delete_branch",
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """Times are of the machine's monotonic clock, the same for all processes.

    `error` is the kind of the error, empty if there was none. A commit has the tip that it began
    from, the snapshot that it made, and what it wrote: new values by chunk. A read has the
    snapshot and all values.
    """

    actor: str
    kind: Kind
    start_ns: int
    end_ns: int
    error: str = ""
    name: str = ""  # of a tag or a branch
    snapshot: str = ""  # made, read or pointed at
    base: str = ""
    began_ns: int = 0  # of the session: before `start_ns`
    rebases: bool = False
    wrote: dict[str, int] = field(default_factory=dict)
    values: list[int] = field(default_factory=list)


class Recorder:
    """Appends events to a file, each with one write, after what it tells of has returned."""

    def __init__(self, folder: Path, actor: str) -> None:
        self.actor = actor
        self._file = os.open(folder / f"events-{actor}", os.O_WRONLY | os.O_APPEND | os.O_CREAT)

    def record(self, kind: Kind, start_ns: int, **facts: Any) -> None:
        event = Event(
            actor=self.actor, kind=kind, start_ns=start_ns, end_ns=time.monotonic_ns(), **facts
        )
        os.write(self._file, json.dumps(asdict(event)).encode() + b"\n")

    def close(self) -> None:
        os.close(self._file)


def recorded(folder: Path) -> list[Event]:
    """All that was recorded, in order of beginning."""
    events = [
        Event(**json.loads(line))
        for path in sorted(folder.glob("events-*"))
        for line in path.read_text().splitlines()
    ]
    return sorted(events, key=lambda event: event.start_ns)
