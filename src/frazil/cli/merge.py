"""`frazil merge`: what was done on one branch, brought to another."""

from typing import Annotated

import typer

from frazil.cli.options import AsJson, DryRun, Message, Repo
from frazil.cli.solving import ChunkChoice, DeleteUpdated, MergeAppends, OnChunkConflict, policy_of


def merge(
    repo: Repo,
    source: Annotated[str, typer.Argument(metavar="BRANCH", help="The branch to merge.")],
    *,
    into: Annotated[str, typer.Option(metavar="BRANCH", help="The branch that is changed.")] = (
        "main"
    ),
    message: Message = None,
    on_chunk_conflict: OnChunkConflict = ChunkChoice.FAIL,
    delete_updated: DeleteUpdated = False,
    merge_appends: MergeAppends = False,
    dry_run: DryRun = False,
    as_json: AsJson = False,
) -> None:
    """Bring what was done on one branch to another, chunk by chunk."""
    from frazil.cli.repositories import open_repository
    from frazil.cli.views.edits import run
    from frazil.repo import history_editing

    repository = open_repository(repo)
    edit = history_editing.Edit(
        branch=into,
        message=message,
        policy=policy_of(
            on_chunk_conflict, delete_updated=delete_updated, merge_appends=merge_appends
        ),
        dry_run=dry_run,
    )
    run(lambda edit: history_editing.merge(repository, source, edit), edit, as_json=as_json)
