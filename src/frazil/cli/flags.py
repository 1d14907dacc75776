"""`frazil flags`: operations that a repository can switch off."""

from enum import StrEnum
from typing import Annotated

import typer

from frazil.cli.options import AsJson, Repo

app = typer.Typer(help="Show and switch what may be done to a repository.", no_args_is_help=True)


class Switch(StrEnum):
    ON = "on"
    OFF = "off"
    DEFAULT = "default"


@app.command("list")
def list_flags(repo: Repo, *, as_json: AsJson = False) -> None:
    """Show the feature flags, and whether somebody has set them."""
    from frazil.cli.output import print_json, print_table
    from frazil.cli.repositories import open_repository
    from frazil.repo import flags

    info = open_repository(repo).info_of_version_2()
    found = {
        flag.name: {
            "enabled": flags.is_enabled(info, flag),
            "set": flags.setting(info, flag) is not None,
        }
        for flag in flags.FLAGS
    }
    if as_json:
        print_json(found)
        return
    rows = [
        (name, "on" if each["enabled"] else "off", "" if each["set"] else "default")
        for name, each in found.items()
    ]
    print_table(["flag", "is", ""], rows)


@app.command("set")
def set_flag(
    repo: Repo,
    name: Annotated[str, typer.Argument(metavar="FLAG", help="As `flags list` has it.")],
    switch: Annotated[Switch, typer.Argument(metavar="on|off|default")],
    *,
    as_json: AsJson = False,
) -> None:
    """Allow or forbid an operation, for everybody."""
    from frazil.cli.output import print_json
    from frazil.cli.repositories import open_repository
    from frazil.repo import flags

    repository = open_repository(repo)
    repository.info_of_version_2()
    flag = flags.require_flag(name)
    repository.set_flag(flag, {"on": True, "off": False, "default": None}[switch.value])
    enabled = flags.is_enabled(repository.repo_info(), flag)
    if as_json:
        print_json({"flag": flag.name, "enabled": enabled, "set": switch is not Switch.DEFAULT})
    else:
        print(f"{flag.name} is {'on' if enabled else 'off'}")
