"""`frazil tag`: list, create, delete."""

from typing import Annotated

import typer

from frazil.cli.options import AsJson, Repo

app = typer.Typer(help="List, create and delete tags.", no_args_is_help=True)


@app.command("list")
def list_tags(repo: Repo, *, as_json: AsJson = False) -> None:
    """Show the tags and the snapshots they point to."""
    from frazil.cli.output import print_refs
    from frazil.cli.repositories import open_repository

    print_refs(open_repository(repo).tags(), as_json=as_json)


@app.command("create")
def create_tag(
    repo: Repo,
    name: str,
    *,
    target: Annotated[
        str, typer.Option("--at", metavar="REF", help="Branch, tag, snapshot id, or main~1.")
    ] = "main",
) -> None:
    """Give a snapshot a name for good: a tag never moves, and its name is never reused."""
    from frazil.cli.repositories import open_repository, resolve

    repository = open_repository(repo)
    snapshot = resolve(repository, target)
    repository.create_tag(name, snapshot)
    print(f"created tag {name} at {snapshot}")


@app.command("delete")
def delete_tag(repo: Repo, name: str) -> None:
    """Delete a tag; its snapshot stays, its name cannot be used again."""
    from frazil.cli.repositories import open_repository

    open_repository(repo).delete_tag(name)
    print(f"deleted tag {name}")
