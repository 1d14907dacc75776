"""What was packed or unpacked, in words and as JSON."""

from dataclasses import asdict, dataclass
from typing import Protocol

from frazil.cli.output import print_json
from frazil.cli.sizes import format_size
from frazil.maintenance.pack import PackPlan
from frazil.maintenance.unpack import UnpackPlan


class Done(Protocol):
    """Results of the actions, here and on Spark."""

    @property
    def snapshot(self) -> object | None: ...
    @property
    def chunks(self) -> int: ...
    @property
    def packs(self) -> int: ...
    @property
    def references(self) -> int: ...
    @property
    def bytes(self) -> int: ...


@dataclass(frozen=True, slots=True)
class Packing:
    """`snapshot` is None after a dry run, and where there was nothing to do."""

    snapshot: str | None
    chunks: int
    packs: int
    references: int
    bytes: int

    @classmethod
    def planned(cls, plan: PackPlan | UnpackPlan) -> "Packing":
        return cls(None, len(plan.chunks), plan.packs, plan.references, plan.bytes)

    @classmethod
    def of(cls, done: Done) -> "Packing":
        snapshot = None if done.snapshot is None else str(done.snapshot)
        return cls(snapshot, done.chunks, done.packs, done.references, done.bytes)


def print_packing(
    found: Packing,
    *,
    branch: str,
    dry_run: bool,
    as_json: bool,
    doing: tuple[str, str],  # pack, packed
) -> None:
    if as_json:
        print_json({"dry_run": dry_run, **asdict(found)})
        return
    if not found.chunks:
        print(f"nothing to {doing[0]}")
        return
    verb = f"would be {doing[1]}" if dry_run else f"are {doing[1]}"
    print(f"{found.chunks} chunks ({format_size(found.bytes)}) {verb}: {found.packs} packs")
    if found.snapshot is not None:
        print(f"branch {branch} is now at new snapshot {found.snapshot}")
