"""What came of a change of history, in words and as JSON."""

import sys
from collections.abc import Callable, Sequence

import typer

from frazil.cli.output import Cell, print_json, print_table
from frazil.cli.views.differences import diff_as_json, diff_as_text
from frazil.errors import Conflict, RebaseFailedError
from frazil.repo.history_editing import Edit, Edited

CONFLICTS = 4  # exit code
_SHOWN_CHUNKS = 5


def run(operation: Callable[[Edit], Edited], edit: Edit, *, as_json: bool) -> None:
    """Does it, or with `dry_run` plans it, and prints what came of it.

    Where conflicts remain they are listed, nothing has changed, and the exit code says so.
    """
    try:
        done = operation(edit)
    except RebaseFailedError as error:
        done = Edited(conflicts=tuple(error.conflicts), solved=False)
    if as_json:
        print_json(_as_json(done, dry_run=edit.dry_run))
    else:
        _print_text(done, edit)
    if not done.solved:
        count = len(done.conflicts)
        print(
            f"error: {count} conflict{'s' if count > 1 else ''}: nothing was changed\n"
            "hint: --on-chunk-conflict, --delete-updated and --merge-appends solve some of them",
            file=sys.stderr,
        )
        raise typer.Exit(CONFLICTS)


def _as_json(done: Edited, *, dry_run: bool) -> dict[str, object]:
    return {
        "dry_run": dry_run,
        "snapshot": None if done.snapshot is None else str(done.snapshot),
        "fast_forward": done.fast_forward,
        "solved": done.solved,
        "conflicts": [
            {
                "type": each.conflict_type.name,
                "path": each.path,
                "chunks": each.conflicted_chunks,
            }
            for each in done.conflicts
        ],
        "applied": diff_as_json(done.applied),
    }


def _print_text(done: Edited, edit: Edit) -> None:
    if done.solved:
        print(_headline(done, edit))
    if changes := diff_as_text(done.applied):
        print(changes)
    if done.conflicts:
        print("conflicts, solved as told:" if done.solved else "conflicts:")
        print_table(["conflict", "path", "chunks"], [_row(each) for each in done.conflicts])


def _headline(done: Edited, edit: Edit) -> str:
    if done.snapshot is not None:
        how = "moved forward to" if done.fast_forward else "now at new snapshot"
        return f"branch {edit.branch} is {how} {done.snapshot}"
    if edit.dry_run and (done.fast_forward or diff_as_text(done.applied)):
        return f"branch {edit.branch} would {'be moved forward' if done.fast_forward else 'change'}"
    return f"nothing to do: branch {edit.branch} has it already"


def _row(conflict: Conflict) -> Sequence[Cell]:
    chunks = conflict.conflicted_chunks or []
    shown = " ".join(",".join(map(str, index)) for index in chunks[:_SHOWN_CHUNKS])
    more = len(chunks) - _SHOWN_CHUNKS
    return (
        str(conflict.conflict_type),
        conflict.path,
        f"{shown} and {more} more" if more > 0 else shown,
    )
