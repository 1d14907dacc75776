"""`frazil dump`: any metadata file as JSON."""

from pathlib import Path
from typing import Annotated

import typer


def dump(
    file: Annotated[Path, typer.Argument(help="A file of a repository, e.g. REPO/repo.")],
    *,
    full: Annotated[bool, typer.Option("--full", help="All rows, however many.")] = False,
) -> None:
    """Show any metadata file of a repository as JSON."""
    from frazil.cli.output import print_json
    from frazil.errors import FormatError
    from frazil.format import dump as format_dump

    try:
        content = format_dump.dump(file.read_bytes(), full=full)
    except FormatError as error:
        raise error.at(str(file)) from error
    print_json(content)
