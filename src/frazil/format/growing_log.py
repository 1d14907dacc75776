"""The ops log of a repo info, and a few entries that are not in its table yet."""

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from frazil.flatbuf.table import Table
from frazil.format.update_log import UndecodedLog, UpdateLog, encode_updates
from frazil.format.updates import Update


class GrowingLog(UndecodedLog):
    """Knows in which bytes it is encoded, but for the entries that were changed last.

    `recent` entries come first, newest first; the last of them stands for the first of `older`,
    which is not shown, nor is what is beyond the first `stop` of these.
    """

    def __init__(
        self,
        recent: tuple[Update, ...],
        older: UpdateLog | UndecodedLog,
        stop: int,
        encoded_in: object,
        *,
        is_encoded: bool = True,
    ) -> None:
        super().__init__(b"")
        self.recent = recent
        self.older = older
        self.stop = stop
        self.encoded_in = encoded_in
        self.is_encoded = is_encoded

    @classmethod
    def of(cls, log: UpdateLog, encoded_in: object) -> "GrowingLog":
        """A log that is encoded there, of at least one entry."""
        return cls((log[0],), log, len(log), encoded_in)

    def now_in(self, encoded_in: object) -> "GrowingLog":
        """The same, all of it encoded there."""
        return GrowingLog(self.recent, self.older, self.stop, encoded_in)

    def grown(self, update: Update, *, backup: str, size: int) -> "Grown | None":
        """One more entry in front, on a page of `size`; None if it takes more than that.

        The one before it is the newest in the file `backup`. See UpdateLog.first_page.
        """
        if not self.is_encoded or len(self.recent) >= size:
            return None
        second = replace(self.recent[0], backup_path=backup)
        recent = (update, second, *self.recent[1:])
        stop, dropped = self.stop, None
        first = max(1, size - len(recent) + 1)  # of the older ones that are too many
        if first < stop:
            paths = UpdateLog.of(self.older).table.string("backup_path")
            elsewhere = np.flatnonzero(paths.codes[first:stop] >= 0)
            if len(elsewhere):
                stop = first + int(elsewhere[0])
                dropped = paths.text(stop)
        log = GrowingLog(recent, self.older, stop, self.encoded_in, is_encoded=False)
        return Grown(log, dropped)

    @cached_property
    def log(self) -> UpdateLog:
        older = UpdateLog.of(self.older).table.take(slice(1, self.stop))
        return UpdateLog(Table.concat([encode_updates(list(self.recent)), older]))

    def __len__(self) -> int:
        return len(self.recent) + self.stop - 1


@dataclass(frozen=True, slots=True, eq=False)
class Grown:
    log: GrowingLog
    dropped: str | None  # the backup that holds what was left out
