"""`frazil tag`: list, create, delete."""

from typing import Annotated

import typer

from frazil.cli.options import AsJson, Repo, Yes

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
    as_json: AsJson = False,
) -> None:
    """Give a snapshot a name for good: a tag never moves, and its name is never reused."""
    from frazil.cli.output import print_json
    from frazil.cli.repositories import open_repository, resolve

    repository = open_repository(repo)
    snapshot = resolve(repository, target)
    repository.create_tag(name, snapshot)
    if as_json:
        print_json({"tag": name, "snapshot": str(snapshot)})
    else:
        print(f"created tag {name} at {snapshot}")


@app.command("delete")
def delete_tag(repo: Repo, name: str, *, yes: Yes = False, as_json: AsJson = False) -> None:
    """Delete a tag; its snapshot stays, its name cannot be used again."""
    from frazil.cli.consent import require_consent
    from frazil.cli.output import print_json
    from frazil.cli.repositories import open_repository

    repository = open_repository(repo)
    snapshot = repository.lookup_tag(name)
    require_consent(f"Delete tag {name}, whose name nobody can use again?", given=yes)
    repository.delete_tag(name)
    if as_json:
        print_json({"tag": name, "snapshot": str(snapshot)})
    else:
        print(f"deleted tag {name}, which was at {snapshot}")
