"""`frazil dump`: any metadata file as JSON."""

from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from collections.abc import Buffer


def dump(
    file: Annotated[
        str,
        typer.Argument(metavar="FILE", help="A file of a repository, e.g. REPO/repo; or a URL."),
    ],
    *,
    full: Annotated[bool, typer.Option("--full", help="All rows, however many.")] = False,
) -> None:
    """Show any metadata file of a repository as JSON."""
    from frazil.cli.output import print_json
    from frazil.errors import FormatError
    from frazil.format.dump import DEFAULT_MAX_ROWS
    from frazil.format.dump import dump as dump_file

    try:
        content = dump_file(_read(file), max_rows=None if full else DEFAULT_MAX_ROWS)
    except FormatError as error:
        raise error.at(file) from error
    print_json(content)


def _read(file: str) -> "Buffer":
    from pathlib import Path

    if "://" not in file or file.startswith("file://"):
        return Path(file.removeprefix("file://")).read_bytes()
    from frazil.cli.repositories import store_at

    folder, _, name = file.rpartition("/")
    return store_at(folder).get(name).data
