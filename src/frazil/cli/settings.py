"""`frazil config`: the settings that a repository stores for everyone who opens it."""

from enum import StrEnum
from typing import Annotated

import typer

from frazil.cli.options import AsJson, Repo

config_app = typer.Typer(
    help="Show and change the settings that a repository stores.", no_args_is_help=True
)
Key = Annotated[
    str,
    typer.Argument(
        metavar="KEY", help="A name of `frazil config show`, such as caching.num_chunk_refs."
    ),
]


@config_app.command("show")
def show_config(repo: Repo, *, as_json: AsJson = False) -> None:
    """Show all settings: what is stored, or else the default."""
    from frazil.cli.output import print_json, print_table
    from frazil.cli.repositories import open_repository
    from frazil.cli.views.settings_view import settings_of

    found = settings_of(open_repository(repo).config)
    if as_json:
        print_json({each.key: {"value": each.value, "stored": each.stored} for each in found})
        return
    rows = [(each.key, each.text, "" if each.stored else "default") for each in found if each.shown]
    print_table(["setting", "value", ""], rows)


@config_app.command("get")
def get_config(repo: Repo, key: Key, *, as_json: AsJson = False) -> None:
    """Show one setting."""
    from frazil.cli.output import print_json
    from frazil.cli.repositories import open_repository
    from frazil.cli.views.settings_view import require_setting, settings_of

    found = require_setting(settings_of(open_repository(repo).config), key)
    if as_json:
        print_json({"key": found.key, "value": found.value, "stored": found.stored})
    else:
        print(found.text)


@config_app.command("set")
def set_config(
    repo: Repo,
    key: Key,
    value: Annotated[
        str, typer.Argument(metavar="VALUE", help="A number, true, false, JSON, or `default`.")
    ],
    *,
    as_json: AsJson = False,
) -> None:
    """Store a setting for everyone who opens the repository from now on."""
    from frazil.cli.output import print_json
    from frazil.cli.repositories import open_repository
    from frazil.cli.views.settings_view import require_setting, settings_of, store_setting

    repository = open_repository(repo)
    before = require_setting(settings_of(repository.config), key)
    after = require_setting(settings_of(store_setting(repository, before.key, value)), key)
    if as_json:
        print_json({"key": after.key, "before": before.value, "value": after.value})
    else:
        print(f"{after.key} is {after.text}, was {before.text}")


# `frazil flags`: operations that a repository can switch off.

flags_app = typer.Typer(
    help="Show and switch what may be done to a repository.", no_args_is_help=True
)


class Switch(StrEnum):
    ON = "on"
    OFF = "off"
    DEFAULT = "default"


@flags_app.command("list")
def list_flags(repo: Repo, *, as_json: AsJson = False) -> None:
    """Show the feature flags, and whether they were set."""
    from frazil.cli.output import print_json, print_table
    from frazil.cli.repositories import open_repository
    from frazil.engine.refs import repo_settings

    info = open_repository(repo).info_of_version_2()
    found = {
        flag.name: {
            "enabled": repo_settings.is_enabled(info, flag),
            "set": repo_settings.flag_setting(info, flag) is not None,
        }
        for flag in repo_settings.FLAGS
    }
    if as_json:
        print_json(found)
        return
    rows = [
        (name, "on" if each["enabled"] else "off", "" if each["set"] else "default")
        for name, each in found.items()
    ]
    print_table(["flag", "is", ""], rows)


@flags_app.command("set")
def set_flag(
    repo: Repo,
    name: Annotated[str, typer.Argument(metavar="FLAG", help="A name of `frazil flags list`.")],
    switch: Annotated[Switch, typer.Argument(metavar="on|off|default")],
    *,
    as_json: AsJson = False,
) -> None:
    """Allow or forbid an operation, for everyone."""
    from frazil.cli.output import print_json
    from frazil.cli.repositories import open_repository
    from frazil.engine.refs import repo_settings

    repository = open_repository(repo)
    repository.info_of_version_2()
    flag = repo_settings.require_flag(name)
    repository.set_flag(flag, {"on": True, "off": False, "default": None}[switch.value])
    enabled = repo_settings.is_enabled(repository.repo_info(), flag)
    if as_json:
        print_json({"flag": flag.name, "enabled": enabled, "set": switch is not Switch.DEFAULT})
    else:
        print(f"{flag.name} is {'on' if enabled else 'off'}")


# `frazil init`: an empty repository.


class Version(StrEnum):
    V2 = "2"
    V1 = "1"
    ALPHA2 = "alpha2"
    ALPHA1 = "alpha1"


def init(
    repo: Repo,
    spec_version: Annotated[
        Version,
        typer.Option(help="Version of the format; the alphas are for stores that can only create."),
    ] = Version.V2,
    *,
    as_json: AsJson = False,
) -> None:
    """Create an empty repository in a new or empty folder, or under a prefix of a bucket."""
    from frazil.cli.output import print_json
    from frazil.cli.repositories import store_at
    from frazil.engine.repository import Repository
    from frazil.format.generation import Generation

    generations = {
        Version.V2: Generation.V2,
        Version.V1: Generation.V1,
        Version.ALPHA2: Generation.A2E,
        Version.ALPHA1: Generation.ALPHA1,
    }
    made = Repository.create(store_at(repo), generation=generations[spec_version])
    if as_json:
        tip = str(made.lookup_branch("main"))
        print_json({"location": repo, "generation": str(made.generation), "snapshot_id": tip})
    else:
        print(f"created an empty repository in {repo}")


# `frazil repo`: names of repositories, and the default one.

repo_app = typer.Typer(help="Give repositories names, and choose a default.", no_args_is_help=True)
Name = Annotated[str, typer.Argument(metavar="NAME", help="Letters, digits, and . _ -")]


@repo_app.command("list")
def list_repositories(*, as_json: AsJson = False) -> None:
    """List the names of repositories; the default one has a star."""
    from frazil.cli.output import print_json, print_table
    from frazil.cli.repositories import known_repositories

    known = known_repositories()
    if as_json:
        found = {
            name: {"location": each.location, "options": dict(each.options)}
            for name, each in known.by_name.items()
        }
        print_json({"default": known.default, "repositories": found})
    elif not known.by_name:
        print("no names yet: `frazil repo add NAME LOCATION` adds one")
    else:
        rows = [
            (f"{'*' if name == known.default else ' '} {name}", each.location)
            for name, each in known.by_name.items()
        ]
        print_table(["  name", "location"], rows)


@repo_app.command("add")
def add_repository(
    name: Name,
    location: Annotated[str, typer.Argument(metavar="LOCATION", help="A folder or a URL.")],
    *,
    default: Annotated[
        bool, typer.Option("--default", help="Use it where no REPO is given.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Give a location a name. Storage options are remembered, but no secrets."""
    from pathlib import Path

    from frazil.cli.output import print_json
    from frazil.cli.repositories import (
        KnownRepositories,
        NamedRepository,
        known_repositories,
        require_name,
        save_repositories,
    )
    from frazil.cli.storage_flags import reach, require_no_secrets

    require_name(name)
    require_no_secrets(reach().repo)
    where = location if "://" in location else str(Path(location).resolve())
    known = known_repositories()
    added = {**known.by_name, name: NamedRepository(where, reach().repo)}
    chosen = name if default else known.default
    save_repositories(KnownRepositories(added, chosen))
    if as_json:
        print_json({"name": name, "location": where, "default": chosen == name})
    else:
        print(f"{name} is {where}{', the default' if chosen == name else ''}")


@repo_app.command("remove")
def remove_repository(name: Name, *, as_json: AsJson = False) -> None:
    """Forget a name; the repository stays as it is."""
    from frazil.cli.output import print_json
    from frazil.cli.repositories import KnownRepositories, require_known, save_repositories

    known = require_known(name)
    left = {each: value for each, value in known.by_name.items() if each != name}
    default = None if known.default == name else known.default
    save_repositories(KnownRepositories(left, default))
    if as_json:
        print_json({"name": name, "default": default})
    else:
        print(f"{name} is no longer a name")


@repo_app.command("default")
def choose_default(name: Name, *, as_json: AsJson = False) -> None:
    """Choose the repository of commands without REPO; elsewhere `@` stands for it."""
    from dataclasses import replace

    from frazil.cli.output import print_json
    from frazil.cli.repositories import require_known, save_repositories

    known = require_known(name)
    save_repositories(replace(known, default=name))
    if as_json:
        print_json({"default": name})
    else:
        print(f"the default is {name}: {known.by_name[name].location}")


# `frazil help`: topics; the help of commands is shown by main.py.


def help_(
    topic: Annotated[
        str, typer.Argument(metavar="TOPIC", help="A command, `storage`, or `exit-codes`.")
    ] = "",
) -> None:
    """Explain a command or a topic."""
    from frazil.cli.failure import EXIT_CODES
    from frazil.cli.storage_flags import TOPIC

    codes = "\n".join(f"  {code:<4} {meaning}" for code, meaning in EXIT_CODES.items())
    topics = {"storage": TOPIC, "exit-codes": f"Exit codes\n\n{codes}"}
    if topic not in topics:
        raise typer.BadParameter(
            f"there is no command or topic {topic!r}; the topics are {', '.join(topics)}"
        )
    print(topics[topic])


# `frazil completion`: what makes a shell complete commands and options.


class Shell(StrEnum):
    BASH = "bash"
    ZSH = "zsh"
    FISH = "fish"


# What typer answers to is `_FRAZIL_COMPLETE`, set by these.
SCRIPTS = {
    Shell.BASH: """\
_frazil_completion() {
    local IFS=$'\\n'
    COMPREPLY=( $( env COMP_WORDS="${COMP_WORDS[*]}" COMP_CWORD=$COMP_CWORD \\
                   _FRAZIL_COMPLETE=complete_bash $1 ) )
    return 0
}
complete -o default -F _frazil_completion frazil""",
    Shell.ZSH: """\
#compdef frazil
_frazil_completion() {
  eval $(env _TYPER_COMPLETE_ARGS="${words[1,$CURRENT]}" _FRAZIL_COMPLETE=complete_zsh frazil)
}
compdef _frazil_completion frazil""",
    Shell.FISH: """\
complete --command frazil --no-files --arguments \
"(env _FRAZIL_COMPLETE=complete_fish _TYPER_COMPLETE_FISH_ACTION=get-args \
_TYPER_COMPLETE_ARGS=(commandline -cp) frazil)" --condition \
"env _FRAZIL_COMPLETE=complete_fish _TYPER_COMPLETE_FISH_ACTION=is-args \
_TYPER_COMPLETE_ARGS=(commandline -cp) frazil\"""",
}


def completion(
    shell: Annotated[Shell, typer.Argument(metavar="bash|zsh|fish", help="The shell.")],
) -> None:
    """Print the completion script of a shell, to be sourced by its startup file."""
    print(SCRIPTS[shell])
