"""`frazil write`: a file, as an array."""

from pathlib import Path
from typing import Annotated

import typer

from frazil.cli.lengths import parse_lengths
from frazil.cli.options import Array, AsJson, Message, OnBranch, Repo


def write(
    repo: Repo,
    path: Array,
    file: Annotated[
        Path, typer.Argument(metavar="FILE", help="A .npy file, or numbers in a .csv or .txt file.")
    ],
    *,
    dims: Annotated[
        str | None, typer.Option(metavar="NAME,...", help="Names of a new array's dimensions.")
    ] = None,
    chunks: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME=LENGTH,...", help="Of a new array; others are one chunk long."),
    ] = None,
    append: Annotated[
        str | None, typer.Option(metavar="NAME", help="Extend the array along this dimension.")
    ] = None,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Replace an array that is there.")
    ] = False,
    branch: OnBranch = "main",
    message: Message = None,
    as_json: AsJson = False,
) -> None:
    """Write a file as a new array, or at the end of one, as one commit.

    For NetCDF, GRIB, TIFF and others there is `frazil ingest`.
    """
    lengths = parse_lengths(chunks or [], "--chunks")
    if append and (dims or chunks or overwrite):
        raise typer.BadParameter(
            "--append takes dimensions and chunks from the array that is there"
        )

    from frazil.cli.output import print_json
    from frazil.cli.repositories import open_repository
    from frazil.cli.views.files import read_file
    from frazil.cli.views.selected import describe
    from frazil.cli.views.writing import append_to, create
    from frazil.paths import NodePath

    where = NodePath.from_key_prefix(path)
    session = open_repository(repo).writable_session(branch)
    names = tuple(each.strip() for each in dims.split(",")) if dims else None
    if append:
        values = read_file(file, len(describe(session, where).shape))
        shape = append_to(session, where, values, append)
    else:
        values = read_file(file, None if names is None else len(names))
        shape = create(session, where, values, names, lengths, overwrite=overwrite)
    snapshot = session.commit(message or f"Write {file.name} to {where}")
    if as_json:
        print_json({"snapshot": str(snapshot), "path": where.text, "shape": list(shape)})
    else:
        sizes = " x ".join(map(str, shape)) or "one value"
        print(f"committed {snapshot} to {branch}: {where} is {sizes}")
