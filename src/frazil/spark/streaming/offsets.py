"""How far a stream has come: all commits up to a snapshot, it included, are read."""

from collections.abc import Mapping
from dataclasses import dataclass

from frazil.errors import InvalidInputError
from frazil.ids import SnapshotId


@dataclass(frozen=True, slots=True)
class Offset:
    """`after`: where the batch that ends here began, if not where the one before it ended.

    Spark keeps offsets as JSON in its checkpoint. A batch that is done again is what it was, since
    both its ends are snapshots.
    """

    snapshot: SnapshotId
    after: SnapshotId | None = None

    def to_json(self) -> dict[str, str]:
        written = {"snapshot": str(self.snapshot)}
        return written if self.after is None else {**written, "after": str(self.after)}


def parse_offset(value: Mapping[str, object]) -> Offset:
    """Of what a checkpoint holds."""
    match value:
        case {"snapshot": str(snapshot), "after": str(after), **other} if not other:
            return Offset(SnapshotId.parse(snapshot), SnapshotId.parse(after))
        case {"snapshot": str(snapshot), **other} if not other:
            return Offset(SnapshotId.parse(snapshot))
        case _:
            raise InvalidInputError(
                f"{dict(value)} is no offset of a stream of commits: the checkpoint is of"
                " another source"
            )
