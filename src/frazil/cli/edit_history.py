"""Commands that make commits from other commits: merge, cherry-pick, revert, squash."""

from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from frazil.cli.options import (
    AsJson,
    Commit,
    DryRun,
    Message,
    OnBranch,
    Repo,
    Yes,
    complete,
    count_of,
)

if TYPE_CHECKING:
    from frazil.engine.history.history_editing import Edit


# Options that say what to do about conflicts, for the commands that make commits of others.


class ChunkChoice(StrEnum):
    """Sides of a conflict, as in git: ours is the branch that is changed, theirs what is applied.

    `VersionSelection` of the API, which is about rebasing, has the same words the other way round:
    there, ours are the changes being rebased.
    """

    FAIL = "fail"
    OURS = "ours"
    THEIRS = "theirs"


OnChunkConflict = Annotated[
    ChunkChoice,
    typer.Option(
        help="For a chunk that both sides wrote: fail, keep the branch's (ours), or take the"
        " incoming one (theirs). As in git; in Python's VersionSelection the words are swapped."
    ),
]
DeleteUpdated = Annotated[
    bool, typer.Option("--delete-updated", help="Delete nodes even if the branch changed them.")
]
MergeAppends = Annotated[
    bool, typer.Option("--merge-appends", help="Let both sides extend the same array.")
]


def make_edit(
    branch: str,
    message: str | None,
    on_chunk_conflict: ChunkChoice,
    *,
    delete_updated: bool,
    merge_appends: bool,
    dry_run: bool,
) -> "Edit":
    """The engine's request, from the options of a command."""
    from frazil.engine.history.history_editing import Edit
    from frazil.engine.merge.solver import Policy, VersionSelection

    selections = {
        ChunkChoice.FAIL: VersionSelection.Fail,
        ChunkChoice.OURS: VersionSelection.UseTheirs,
        ChunkChoice.THEIRS: VersionSelection.UseOurs,
    }
    policy = Policy(
        on_chunk_conflict=selections[on_chunk_conflict],
        delete_updated_arrays=delete_updated,
        delete_updated_groups=delete_updated,
        merge_appends=merge_appends,
    )
    return Edit(branch=branch, message=message, policy=policy, dry_run=dry_run)


def merge(
    repo: Repo,
    source: Annotated[
        str,
        typer.Argument(
            metavar="BRANCH", help="The branch to merge.", autocompletion=complete("branches")
        ),
    ],
    *,
    into: Annotated[
        str,
        typer.Option(
            metavar="BRANCH", help="The branch to change.", autocompletion=complete("branches")
        ),
    ] = "main",
    message: Message = None,
    on_chunk_conflict: OnChunkConflict = ChunkChoice.FAIL,
    delete_updated: DeleteUpdated = False,
    merge_appends: MergeAppends = False,
    dry_run: DryRun = False,
    as_json: AsJson = False,
) -> None:
    """Merge a branch into another, chunk by chunk."""
    from frazil.cli.repositories import open_repository
    from frazil.cli.views.history_view import run
    from frazil.engine.history import history_editing

    repository = open_repository(repo)
    edit = make_edit(
        into, message, on_chunk_conflict,
        delete_updated=delete_updated, merge_appends=merge_appends, dry_run=dry_run,
    )  # fmt: skip
    run(lambda edit: history_editing.merge(repository, source, edit), edit, as_json=as_json)


# `frazil cherry-pick`: what a commit did elsewhere, done on a branch.


def cherry_pick(
    repo: Repo,
    commit: Commit,
    *,
    branch: OnBranch = "main",
    message: Message = None,
    on_chunk_conflict: OnChunkConflict = ChunkChoice.FAIL,
    delete_updated: DeleteUpdated = False,
    merge_appends: MergeAppends = False,
    dry_run: DryRun = False,
    as_json: AsJson = False,
) -> None:
    """Apply the changes of a commit to another branch, as a new commit."""
    from frazil.cli.repositories import open_repository, resolve
    from frazil.cli.views.history_view import run
    from frazil.engine.history import history_editing

    repository = open_repository(repo)
    snapshot = resolve(repository, commit)
    edit = make_edit(
        branch, message, on_chunk_conflict,
        delete_updated=delete_updated, merge_appends=merge_appends, dry_run=dry_run,
    )  # fmt: skip
    run(lambda edit: history_editing.cherry_pick(repository, snapshot, edit), edit, as_json=as_json)


# `frazil revert`: what one commit did, undone by a new one.


def revert(
    repo: Repo,
    commit: Commit,
    *,
    branch: OnBranch = "main",
    message: Message = None,
    on_chunk_conflict: OnChunkConflict = ChunkChoice.FAIL,
    delete_updated: DeleteUpdated = False,
    merge_appends: MergeAppends = False,
    dry_run: DryRun = False,
    as_json: AsJson = False,
) -> None:
    """Undo a commit of a branch's history with a new commit."""
    from frazil.cli.repositories import open_repository, resolve
    from frazil.cli.views.history_view import run
    from frazil.engine.history import history_editing

    repository = open_repository(repo)
    snapshot = resolve(repository, commit)
    edit = make_edit(
        branch, message, on_chunk_conflict,
        delete_updated=delete_updated, merge_appends=merge_appends, dry_run=dry_run,
    )  # fmt: skip
    run(lambda edit: history_editing.revert(repository, snapshot, edit), edit, as_json=as_json)


# `frazil squash`: a range of history as one commit.


def squash(
    repo: Repo,
    first: Annotated[str, typer.Argument(metavar="FIRST", help="The oldest commit of the range.")],
    last: Annotated[
        str | None,
        typer.Argument(metavar="LAST", help="The newest commit of the range.  [default: the tip]"),
    ] = None,
    *,
    message: Annotated[str, typer.Option("-m", "--message", help="Message of the new commit.")],
    branch: OnBranch = "main",
    dry_run: DryRun = False,
    yes: Yes = False,
    as_json: AsJson = False,
) -> None:
    """Combine a range of commits into one; later commits get new ids."""
    from dataclasses import replace

    from frazil.cli.output import print_json, require_consent
    from frazil.cli.repositories import open_repository, resolve
    from frazil.cli.views.diff_view import diff_as_json, diff_as_text
    from frazil.engine.history import squash as engine

    repository = open_repository(repo)
    request = engine.SquashRequest(
        branch=branch,
        first=resolve(repository, first),
        last=None if last is None else resolve(repository, last),
        message=message,
        dry_run=True,
    )
    done = engine.squash(repository, request)
    if not dry_run:
        count, followers = len(done.squashed), len(done.followers)
        require_consent(
            f"replace {count_of(count, 'commit')} of {branch} by one"
            f"{f' and rewrite the {followers} after them' if followers else ''}",
            given=yes,
        )
        done = engine.squash(repository, replace(request, dry_run=False))
    if as_json:
        print_json(
            {
                "dry_run": dry_run,
                "snapshot_id": None if done.snapshot is None else str(done.snapshot),
                "tip_snapshot_id": None if done.tip is None else str(done.tip),
                "squashed_snapshot_ids": list(map(str, done.squashed)),
                "follower_snapshot_ids": list(map(str, done.followers)),
                "changes": diff_as_json(done.applied),
            }
        )
        return
    what = count_of(len(done.squashed), "commit")
    print(f"{what} would be one" if done.tip is None else f"{what} are one: {done.snapshot}")
    if done.tip is not None:
        print(f"branch {branch} is now at new snapshot {done.tip}")
    print(diff_as_text(done.applied) or "no changes")
