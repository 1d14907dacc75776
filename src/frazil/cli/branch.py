"""`frazil branch`: list, create, delete."""

from typing import Annotated

import typer

from frazil.cli.options import AsJson, Repo

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
) -> None:
    """Make a branch that points to a snapshot."""
    from frazil.cli.repositories import open_repository, resolve

    repository = open_repository(repo)
    snapshot = resolve(repository, start)
    repository.create_branch(name, snapshot)
    print(f"created branch {name} at {snapshot}")


@app.command("delete")
def delete_branch(repo: Repo, name: str) -> None:
    """Delete a branch; its snapshots stay."""
    from frazil.cli.repositories import open_repository

    open_repository(repo).delete_branch(name)
    print(f"deleted branch {name}")
