"""`frazil revert`: what one commit did, undone by a new one."""

from frazil.cli.options import AsJson, Commit, DryRun, Message, OnBranch, Repo
from frazil.cli.solving import ChunkChoice, DeleteUpdated, MergeAppends, OnChunkConflict, policy_of


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
    """Undo on a branch what one commit of its history did, by a new commit."""
    from frazil.cli.repositories import open_repository, resolve
    from frazil.cli.views.edits import run
    from frazil.repo import history_editing

    repository = open_repository(repo)
    snapshot = resolve(repository, commit)
    edit = history_editing.Edit(
        branch=branch,
        message=message,
        policy=policy_of(
            on_chunk_conflict, delete_updated=delete_updated, merge_appends=merge_appends
        ),
        dry_run=dry_run,
    )
    run(lambda edit: history_editing.revert(repository, snapshot, edit), edit, as_json=as_json)
