"""`frazil branch`: list, create, delete."""

from typing import Annotated

import typer

from frazil.cli.options import AsJson, Repo, Yes

app = typer.Typer(help="List, create and delete branches.", no_args_is_help=True)


@app.command("list")
def list_branches(repo: Repo, *, as_json: AsJson = False) -> None:
    """Show the branches and the snapshots they point to."""
    from frazil.cli.output import print_refs
    from frazil.cli.repositories import open_repository

    print_refs(open_repository(repo).branches(), as_json=as_json)


@app.command("create")
def create_branch(
    repo: Repo,
    name: str,
    *,
    start: Annotated[
        str, typer.Option("--from", metavar="REF", help="Branch, tag, snapshot id, or main~1.")
    ] = "main",
    as_json: AsJson = False,
) -> None:
    """Make a branch that points to a snapshot."""
    from frazil.cli.output import print_json
    from frazil.cli.repositories import open_repository, resolve

    repository = open_repository(repo)
    snapshot = resolve(repository, start)
    repository.create_branch(name, snapshot)
    if as_json:
        print_json({"branch": name, "snapshot": str(snapshot)})
    else:
        print(f"created branch {name} at {snapshot}")


@app.command("delete")
def delete_branch(repo: Repo, name: str, *, yes: Yes = False, as_json: AsJson = False) -> None:
    """Delete a branch; commits that only it leads to are collected later."""
    from frazil.cli.consent import require_consent
    from frazil.cli.output import print_json
    from frazil.cli.repositories import open_repository
    from frazil.cli.views.reachable import only_by
    from frazil.repo.refs import require_deletable

    require_deletable(name)
    repository = open_repository(repo)
    tip, alone = repository.lookup_branch(name), only_by(repository, name)
    if alone:
        commits = f"{len(alone)} commit{'s' if len(alone) > 1 else ''}"
        require_consent(f"Delete branch {name}, the only way to {commits}?", given=yes)
    repository.delete_branch(name)
    if as_json:
        left = [str(each) for each in alone]
        print_json({"branch": name, "snapshot": str(tip), "left": left})
    else:
        print(f"deleted branch {name}, which was at {tip}")
