"""`frazil config`: the settings that a repository stores, for everybody who opens it."""

from typing import Annotated

import typer

from frazil.cli.options import AsJson, Repo

app = typer.Typer(
    help="Show and change the settings that a repository stores.", no_args_is_help=True
)
Key = Annotated[
    str,
    typer.Argument(metavar="KEY", help="As `config show` has it, such as caching.num_chunk_refs."),
]


@app.command("show")
def show_config(repo: Repo, *, as_json: AsJson = False) -> None:
    """Show all settings: what is stored, or else the default."""
    from frazil.cli.output import print_json, print_table
    from frazil.cli.repositories import open_repository
    from frazil.cli.views.settings import settings_of

    found = settings_of(open_repository(repo).config)
    if as_json:
        print_json({each.key: {"value": each.value, "stored": each.stored} for each in found})
        return
    rows = [(each.key, each.text, "" if each.stored else "default") for each in found if each.shown]
    print_table(["setting", "value", ""], rows)


@app.command("get")
def get_config(repo: Repo, key: Key, *, as_json: AsJson = False) -> None:
    """Show one setting."""
    from frazil.cli.output import print_json
    from frazil.cli.repositories import open_repository
    from frazil.cli.views.settings import require_setting, settings_of

    found = require_setting(settings_of(open_repository(repo).config), key)
    if as_json:
        print_json({"key": found.key, "value": found.value, "stored": found.stored})
    else:
        print(found.text)


@app.command("set")
def set_config(
    repo: Repo,
    key: Key,
    value: Annotated[
        str, typer.Argument(metavar="VALUE", help="A number, true, false, JSON, or `default`.")
    ],
    *,
    as_json: AsJson = False,
) -> None:
    """Store a setting, for everybody who opens the repository from now on."""
    from frazil.cli.output import print_json
    from frazil.cli.repositories import open_repository
    from frazil.cli.views.settings import require_setting, settings_of, store_setting

    repository = open_repository(repo)
    before = require_setting(settings_of(repository.config), key)
    after = require_setting(settings_of(store_setting(repository, before.key, value)), key)
    if as_json:
        print_json({"key": after.key, "before": before.value, "value": after.value})
    else:
        print(f"{after.key} is {after.text}, was {before.text}")
