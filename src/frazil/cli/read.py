"""`frazil read`: a part of an array, as a file."""

from pathlib import Path
from typing import Annotated

import typer

from frazil.cli.options import (
    Array,
    AsJson,
    Authorize,
    Branch,
    Isel,
    Repo,
    Sel,
    Snapshot,
    Tag,
)

SUFFIXES = (".npy", ".csv", ".parquet")


def read(
    repo: Repo,
    path: Array,
    *,
    output: Annotated[
        Path,
        typer.Option(
            "-o",
            "--output",
            metavar="FILE",
            help=".npy: the values as they are stored; .csv, .parquet: a row for each, with"
            " coordinates, decoded as CF has it.",
        ),
    ],
    sel: Sel = None,
    isel: Isel = None,
    branch: Branch = None,
    tag: Tag = None,
    snapshot: Snapshot = None,
    authorize: Authorize = None,
    as_json: AsJson = False,
) -> None:
    """Write an array, or a part of it, to a file. For more than fits here: `frazil export`."""
    from frazil.cli.selecting import parse_isel, parse_sel

    labels, numbers = parse_sel(sel or []), parse_isel(isel or [])
    if output.suffix not in SUFFIXES:
        raise typer.BadParameter(f"{output}: expected one of {', '.join(SUFFIXES)}")

    from frazil.cli.output import print_json
    from frazil.cli.views.files import write_file
    from frazil.cli.views.selected import select
    from frazil.cli.views.values import open_session
    from frazil.paths import NodePath

    session = open_session(repo, branch, tag, snapshot, authorize or [])
    chosen = select(session, NodePath.from_key_prefix(path), labels, numbers)
    written = write_file(chosen, output)
    if as_json:
        print_json(
            {"file": str(output), "shape": list(written), "snapshot": str(session.snapshot_id)}
        )
    else:
        print(f"wrote {' x '.join(map(str, written)) or 'one'} values to {output}")
