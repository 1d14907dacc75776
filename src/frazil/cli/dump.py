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
    from frazil.format.dump import DEFAULT_MAX_ROWS
    from frazil.format.dump import dump as dump_file

    try:
        content = dump_file(file.read_bytes(), max_rows=None if full else DEFAULT_MAX_ROWS)
    except FormatError as error:
        raise error.at(str(file)) from error
    print_json(content)
