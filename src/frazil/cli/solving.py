"""Options that say what to do about conflicts, for the commands that make commits of others."""

from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from frazil.repo.solver import Policy


class ChunkChoice(StrEnum):
    FAIL = "fail"
    OURS = "ours"
    THEIRS = "theirs"


OnChunkConflict = Annotated[
    ChunkChoice,
    typer.Option(
        help="Of a chunk that both sides wrote: refuse, take that of the commit being applied"
        " (ours), or leave that of the branch (theirs)."
    ),
]
DeleteUpdated = Annotated[
    bool, typer.Option("--delete-updated", help="Delete nodes also if the branch changed them.")
]
MergeAppends = Annotated[
    bool, typer.Option("--merge-appends", help="Let both sides extend the same array.")
]


def policy_of(
    on_chunk_conflict: ChunkChoice, *, delete_updated: bool, merge_appends: bool
) -> "Policy":
    from frazil.repo.solver import Policy, VersionSelection

    selections = {
        ChunkChoice.FAIL: VersionSelection.Fail,
        ChunkChoice.OURS: VersionSelection.UseOurs,
        ChunkChoice.THEIRS: VersionSelection.UseTheirs,
    }
    return Policy(
        on_chunk_conflict=selections[on_chunk_conflict],
        delete_updated_arrays=delete_updated,
        delete_updated_groups=delete_updated,
        merge_appends=merge_appends,
    )
