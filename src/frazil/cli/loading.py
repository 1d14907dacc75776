"""Commands that are loaded when somebody wants them, so that `frazil --help` is fast."""

from collections.abc import Iterator, Mapping
from importlib import import_module
from typing import Any, override

import typer
from typer.core import TyperGroup
from typer.main import get_command

from frazil.cli.commands import COMMANDS, WITH_TARGET, WITHOUT_PLACE
from frazil.cli.examples import epilog
from frazil.cli.reaching import with_storage_options

# plain help: rich alone would double the time to show it
PLAIN: dict[str, Any] = {
    "add_completion": False,
    "pretty_exceptions_enable": False,
    "rich_markup_mode": None,
}


def load(name: str) -> Any:
    """A command as typer's click has it, with examples and the options of storage."""
    listed = COMMANDS[name]
    found = getattr(import_module(f"frazil.cli.{listed.module}"), listed.function)
    if isinstance(found, typer.Typer):
        return _load_group(name, found)
    if name not in WITHOUT_PLACE:
        found = with_storage_options(found, target=name in WITH_TARGET)
    alone = typer.Typer(**PLAIN)
    alone.command(name, short_help=listed.summary, epilog=epilog(name))(found)
    return get_command(alone)


def _load_group(name: str, group: typer.Typer) -> Any:
    whole = typer.Typer(help=group.info.help, no_args_is_help=True, **PLAIN)
    for each in group.registered_commands:
        if each.callback is not None and each.name is not None:
            whole.command(each.name, epilog=epilog(f"{name} {each.name}"))(
                with_storage_options(each.callback)
            )
    made = get_command(whole)
    made.name = name
    return made


class Commands(Mapping[str, Any]):
    """All there are, by name; each is made when it is asked for, once."""

    def __init__(self) -> None:
        self._made: dict[str, Any] = {}

    def __getitem__(self, name: str) -> Any:
        if name not in COMMANDS:
            raise KeyError(name)
        if name not in self._made:
            self._made[name] = load(name)
        return self._made[name]

    def __iter__(self) -> Iterator[str]:
        return iter(COMMANDS)

    def __len__(self) -> int:
        return len(COMMANDS)


class LoadingGroup(TyperGroup):
    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.commands: Any = Commands()

    @override
    def list_commands(self, ctx: Any) -> list[str]:
        return list(COMMANDS)

    @override
    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        return self.commands.get(cmd_name)

    @override
    def format_commands(self, ctx: Any, formatter: Any) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, each.summary) for name, each in COMMANDS.items()])
