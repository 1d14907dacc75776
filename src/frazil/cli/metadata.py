"""`frazil metadata`: what a repository says about itself."""

from collections.abc import Mapping
from typing import Annotated

import typer

from frazil.cli.options import AsJson, Repo

app = typer.Typer(help="Show and change a repository's metadata.", no_args_is_help=True)
Key = Annotated[str, typer.Argument(metavar="KEY")]


@app.command("show")
def show_metadata(repo: Repo, *, as_json: AsJson = False) -> None:
    """Show the metadata of the repository itself; that of commits is in `frazil show`."""
    from frazil.cli.output import print_json
    from frazil.cli.repositories import open_repository

    found = open_repository(repo).info_of_version_2().metadata
    if as_json:
        print_json(found)
    else:
        _print(found)


@app.command("set")
def set_metadata(
    repo: Repo,
    key: Key,
    value: Annotated[str, typer.Argument(metavar="VALUE", help="JSON, or else text.")],
    *,
    as_json: AsJson = False,
) -> None:
    """Set one key; what others set at the same time is kept."""
    import json

    from frazil.cli.output import print_json
    from frazil.cli.repositories import open_repository

    repository = open_repository(repo)
    repository.info_of_version_2()
    try:
        parsed = json.loads(value)
    except ValueError:
        parsed = value
    found = repository.update_metadata({key: parsed})
    if as_json:
        print_json(found)
    else:
        _print(found)


@app.command("unset")
def unset_metadata(repo: Repo, key: Key, *, as_json: AsJson = False) -> None:
    """Take one key away."""
    from frazil.cli.output import print_json
    from frazil.cli.repositories import open_repository
    from frazil.errors import InvalidInputError

    repository = open_repository(repo)
    found = repository.info_of_version_2().metadata
    if key not in found:
        raise InvalidInputError(f"the metadata has no {key!r}")
    left = {name: value for name, value in found.items() if name != key}
    repository.set_metadata(left)
    if as_json:
        print_json(left)
    else:
        _print(left)


def _print(metadata: Mapping[str, object]) -> None:
    import json

    if not metadata:
        print("no metadata")
    for name, value in metadata.items():
        print(f"{name}: {value if isinstance(value, str) else json.dumps(value)}")
