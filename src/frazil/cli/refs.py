"""`frazil branch`: list, create, delete."""

from typing import TYPE_CHECKING, Annotated

import typer

from frazil.cli.options import AsJson, Commit, DryRun, OnBranch, Repo, Yes, count_of

if TYPE_CHECKING:
    from frazil.engine.repository import Repository
    from frazil.ids import SnapshotId


Start = Annotated[
    str | None,
    typer.Argument(
        metavar="[COMMIT]", help="A branch, a tag, a snapshot id, or main~1.  [default: main]"
    ),
]


def _one_of(where: str | None, option: str | None, name: str) -> str:
    """Returns the commit that the argument or the option names."""
    if where is not None and option is not None:
        raise typer.BadParameter(f"the commit is given twice, by an argument and by {name}")
    return where or option or "main"


branch_app = typer.Typer(help="List, create and delete branches.", no_args_is_help=True)


@branch_app.command("list")
def list_branches(repo: Repo, *, as_json: AsJson = False) -> None:
    """Show the branches and the snapshots they point to."""
    from frazil.cli.output import print_refs
    from frazil.cli.repositories import open_repository

    print_refs(open_repository(repo).branches(), as_json=as_json)


@branch_app.command("create")
def create_branch(
    repo: Repo,
    name: str,
    where: Start = None,
    *,
    start: Annotated[
        str | None, typer.Option("--from", metavar="COMMIT", help="COMMIT, as an option.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Make a branch that points to a snapshot."""
    from frazil.cli.output import print_json
    from frazil.cli.repositories import open_repository, resolve

    repository = open_repository(repo)
    snapshot = resolve(repository, _one_of(where, start, "--from"))
    repository.create_branch(name, snapshot)
    if as_json:
        print_json({"branch": name, "snapshot_id": str(snapshot)})
    else:
        print(f"created branch {name} at {snapshot}")


@branch_app.command("delete")
def delete_branch(repo: Repo, name: str, *, yes: Yes = False, as_json: AsJson = False) -> None:
    """Delete a branch; commits that are reachable only from it are collected later."""
    from frazil.cli.output import print_json, require_consent
    from frazil.cli.repositories import open_repository
    from frazil.cli.views.history_view import only_by
    from frazil.engine.refs.refs import require_deletable

    require_deletable(name)
    repository = open_repository(repo)
    tip, alone = repository.lookup_branch(name), only_by(repository, name)
    if alone:
        commits = count_of(len(alone), "commit")
        require_consent(f"delete {name}, the only branch with {commits}", given=yes)
    repository.delete_branch(name)
    if as_json:
        left = [str(each) for each in alone]
        print_json({"branch": name, "snapshot_id": str(tip), "removed_snapshot_ids": left})
    else:
        print(f"deleted branch {name}, which was at {tip}")


# `frazil tag`: list, create, delete.

tag_app = typer.Typer(help="List, create and delete tags.", no_args_is_help=True)


@tag_app.command("list")
def list_tags(repo: Repo, *, as_json: AsJson = False) -> None:
    """Show the tags and the snapshots they point to."""
    from frazil.cli.output import print_refs
    from frazil.cli.repositories import open_repository

    print_refs(open_repository(repo).tags(), as_json=as_json)


@tag_app.command("create")
def create_tag(
    repo: Repo,
    name: str,
    where: Start = None,
    *,
    target: Annotated[
        str | None, typer.Option("--at", metavar="COMMIT", help="COMMIT, as an option.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Give a snapshot a name for good: a tag never moves, and its name is never reused."""
    from frazil.cli.output import print_json
    from frazil.cli.repositories import open_repository, resolve

    repository = open_repository(repo)
    snapshot = resolve(repository, _one_of(where, target, "--at"))
    repository.create_tag(name, snapshot)
    if as_json:
        print_json({"tag": name, "snapshot_id": str(snapshot)})
    else:
        print(f"created tag {name} at {snapshot}")


@tag_app.command("delete")
def delete_tag(repo: Repo, name: str, *, yes: Yes = False, as_json: AsJson = False) -> None:
    """Delete a tag; its snapshot stays, its name cannot be used again."""
    from frazil.cli.output import print_json, require_consent
    from frazil.cli.repositories import open_repository

    repository = open_repository(repo)
    snapshot = repository.lookup_tag(name)
    require_consent(f"delete tag {name}, whose name can never be used again", given=yes)
    repository.delete_tag(name)
    if as_json:
        print_json({"tag": name, "snapshot_id": str(snapshot)})
    else:
        print(f"deleted tag {name}, which was at {snapshot}")


# `frazil reset`: a branch put at another snapshot.


def reset(
    repo: Repo,
    commit: Commit,
    *,
    branch: OnBranch = "main",
    dry_run: DryRun = False,
    yes: Yes = False,
    as_json: AsJson = False,
) -> None:
    """Move a branch to another snapshot; `frazil gc` deletes commits that nothing reaches."""
    from frazil.cli.output import print_json, require_consent
    from frazil.cli.repositories import open_repository, resolve

    repository = open_repository(repo)
    target, tip = resolve(repository, commit), repository.lookup_branch(branch)
    left = _only_in(repository, tip, target)
    if not dry_run:
        if left:
            removed = count_of(len(left), "commit")
            require_consent(f"remove {removed} from {branch}", given=yes)
        repository.reset_branch(branch, target, expected=tip)
    if as_json:
        print_json(
            {
                "dry_run": dry_run,
                "branch": branch,
                "previous_snapshot_id": str(tip),
                "snapshot_id": str(target),
                "removed_snapshot_ids": [str(each) for each in left],
            }
        )
        return
    print(f"branch {branch} {'would go' if dry_run else 'went'} from {tip} to {target}")
    for each in left:
        print(f"  off the branch: {each}")


def _only_in(
    repository: "Repository", tip: "SnapshotId", target: "SnapshotId"
) -> list["SnapshotId"]:
    """Ancestors of `tip` that are not ancestors of `target`, newest first."""
    from frazil.engine.refs.version import Exactly

    kept = {record.id for record in repository.ancestry(Exactly(target))}
    return [each.id for each in repository.ancestry(Exactly(tip)) if each.id not in kept]
