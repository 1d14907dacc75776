"""The objects below `staged/`: tickets, tombstones, receipts.

<time>.<ticket>         a ticket, created if absent; or a tombstone, of no bytes
<time>.<ticket>.done    a receipt, if the commit was made: the id of the snapshot, and how many
                        milliseconds its carrier took. Or a hint for its author, which may be late,
                        lost or repeated: `next`, its turn will come soon; `carry`, it has come;
                        `skipped`, it does not fit
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress

import numpy as np
import numpy.typing as npt

from frazil.dataclass import dataclass
from frazil.engine.files.files import Files
from frazil.engine.files.object_keys import RECEIPT, STAGED, staged_folder, ticket_of_key
from frazil.engine.group.ticket import Ticket, decode_ticket
from frazil.errors import FormatError, ObjectNotFoundError, PreconditionFailedError
from frazil.format.chunk_refs import RefKind
from frazil.ids import ChunkId, SnapshotId
from frazil.objectstore.protocol import ABSENT, ALWAYS, Blob, ObjectInfo, Precondition

LATE_US = 600_000_000
"""Ten minutes: how late the commit of a writer that died can appear."""
NEXT, CARRY, SKIPPED = b"next", b"carry", b"skipped"


@dataclass(frozen=True, slots=True)
class Receipt:
    """The answer for a commit that was made."""

    snapshot: SnapshotId
    round_s: float  # of its carrier

    def encode(self) -> bytes:
        """Always of one length, by which a listing tells it from hints."""
        return f"{self.snapshot} {min(int(self.round_s * 1000), 999_999):06}".encode()

    @classmethod
    def parse(cls, answer: bytes | None, number: bytes) -> "Receipt | None":
        """None if it is a hint, or not of this ticket."""
        if answer is None:
            return None
        try:
            name, took_ms = answer.decode().split()
            found = cls(SnapshotId.parse(name), int(took_ms) / 1000)
        except ValueError:
            return None
        return found if found.snapshot.raw.startswith(number) else None


@dataclass(frozen=True, slots=True)
class StagedTicket:
    """A ticket as it is listed."""

    key: str
    number: bytes
    modified_at_us: int
    is_skipped: bool  # its author was told that it does not fit


@dataclass(frozen=True, slots=True)
class Staged:
    """Tickets for a branch, oldest first by their names; tombstones are left out."""

    tickets: Sequence[StagedTicket]

    @classmethod
    def of(cls, listed: Iterator[ObjectInfo]) -> "Staged":
        infos = {info.key: info for info in listed}
        done = {
            key.removesuffix(RECEIPT): info.size_bytes
            for key, info in infos.items()
            if key.endswith(RECEIPT)
        }
        made = len(Receipt(SnapshotId(bytes(SnapshotId.size)), 0.0).encode())
        tickets = [
            StagedTicket(key, number, info.modified_at_us, done.get(key) == len(SKIPPED))
            for key, info in sorted(infos.items())
            if not key.endswith(RECEIPT)
            and info.size_bytes
            and done.get(key) != made
            and (number := ticket_of_key(key)) is not None
        ]
        return cls(tickets)

    def before(self, key: str) -> int:
        """The number of tickets in front of this one that have a chance."""
        return sum(each.key < key and not each.is_skipped for each in self.tickets)

    def young(self, key: str, age_us: int) -> list[StagedTicket]:
        """Tickets that may be carried, by the clock of the store; that of `key` is so old."""
        now_us = max((t.modified_at_us for t in self.tickets), default=0)
        now_us = max(now_us, *(t.modified_at_us + age_us for t in self.tickets if t.key == key), 0)
        return [
            ticket
            for ticket in self.tickets
            if ticket.key == key or now_us - ticket.modified_at_us < LATE_US
        ]


@dataclass(frozen=True, slots=True)
class Leftovers:
    """Objects below `staged/` that a collection deletes."""

    tickets: tuple[str, ...]  # before its swap, so that no one carries them afterwards
    others: tuple[str, ...]  # tombstones and receipts


def find_leftovers(
    files: Files,
    *,
    cutoff_us: int,
    now_us: int,
    is_garbage: Callable[[npt.NDArray[np.uint8]], npt.NDArray[np.bool_]],
) -> Leftovers:
    """Tickets older than the cutoff, and those of writers that died, by the chunks they refer to.

    A writer that is alive has no chunks that old: garbage is older than any open session.
    """
    infos = list(files.store.list(STAGED))
    is_ticket = [info.size_bytes > 0 and not info.key.endswith(RECEIPT) for info in infos]
    tickets = [info for info, wanted in zip(infos, is_ticket, strict=True) if wanted]
    others = [info for info, wanted in zip(infos, is_ticket, strict=True) if not wanted]

    def is_leftover(info: ObjectInfo) -> bool:
        if info.modified_at_us < cutoff_us:
            return True
        try:
            ticket = decode_ticket(files.store.get(info.key).data)
        except (ObjectNotFoundError, FormatError):
            return False  # no one carries it
        return bool(is_garbage(_native_chunks(ticket)).any())

    gone = [info.key for info in tickets if is_leftover(info)]
    # A request that stages a ticket may be late: its tombstone must still be there.
    before_us = min(cutoff_us, now_us - LATE_US)
    old = [info.key for info in others if info.modified_at_us < before_us]
    return Leftovers(tuple(gone), tuple(old))


def _native_chunks(ticket: Ticket) -> npt.NDArray[np.uint8]:
    """Ids, (n, 12), of the chunks that a ticket refers to."""
    refs = [pending.changes().refs for pending in ticket.changes.chunks.values()]
    ids = [each.chunk_id[each.kind == RefKind.NATIVE] for each in refs]
    return np.concatenate([np.zeros((0, ChunkId.size), dtype=np.uint8), *ids])


class StagingArea:
    """The tickets of one branch."""

    def __init__(self, files: Files, branch: str) -> None:
        self._files = files
        self._store = files.store
        self._folder = staged_folder(branch)
        self._read: dict[str, Blob] = {}

    def stage(self, key: str, data: bytes) -> None:
        # Refused only if an earlier try, whose reply was lost, put it: no one else knows the name.
        with suppress(PreconditionFailedError):
            self._store.put(key, data, when=ABSENT)

    def bury(self, key: str) -> None:
        """Replaces a ticket by a tombstone: a late request cannot create it again."""
        self._store.put(key, b"")

    def list(self) -> Staged:
        return Staged.of(self._store.list(self._folder))

    def read(self, keys: Sequence[str]) -> dict[str, bytes]:
        """Tickets as they are now; without those that are gone or withdrawn."""

        def read(key: str) -> bytes:
            try:
                blob = self._store.reread(key, self._read.get(key))
            except ObjectNotFoundError:
                return b""
            self._read[key] = blob
            return bytes(blob.data)

        found = zip(keys, self._files.pool.map(read, keys), strict=True)
        return {key: data for key, data in found if data}

    def answer(self, key: str) -> bytes | None:
        """The receipt or hint for the author of a ticket; None if there is none."""
        try:
            return bytes(self._store.get(key + RECEIPT).data)
        except ObjectNotFoundError:
            return None

    def put_answers(self, answers: Mapping[str, bytes], *, when: Precondition = ALWAYS) -> None:
        def put(key: str) -> None:
            with suppress(PreconditionFailedError):  # it has an answer, which is as good
                self._store.put(key + RECEIPT, answers[key], when=when)

        self._files.pool.map(put, list(answers))

    def remove(self, keys: Sequence[str]) -> None:
        self._store.delete(keys)
