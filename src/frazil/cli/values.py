"""`frazil read`: a part of an array, as a file."""

import json
from pathlib import Path
from typing import Annotated

import typer

from frazil.cli.options import (
    Array,
    AsJson,
    Authorize,
    Branch,
    Isel,
    Message,
    OnBranch,
    Repo,
    Sel,
    Snapshot,
    Tag,
    parse_lengths,
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
    labels, numbers = parse_sel(sel or []), parse_isel(isel or [])
    if output.suffix not in SUFFIXES:
        raise typer.BadParameter(f"{output}: expected one of {', '.join(SUFFIXES)}")

    from frazil.cli.output import print_json
    from frazil.cli.views.values_view import open_session, select, write_file
    from frazil.paths import NodePath

    session = open_session(repo, branch, tag, snapshot, authorize or [])
    chosen = select(session, NodePath.from_key_prefix(path), labels, numbers)
    written = write_file(chosen, output)
    if as_json:
        print_json(
            {"file": str(output), "shape": list(written), "snapshot_id": str(session.snapshot_id)}
        )
    else:
        print(f"wrote {' x '.join(map(str, written)) or 'one'} values to {output}")


# `frazil cat`: the values of an array.

MOST_VALUES = 10_000  # as a table
MOST_PLAIN_VALUES = 1_000_000  # for programs


def cat(
    repo: Repo,
    path: Array,
    *,
    sel: Sel = None,
    isel: Isel = None,
    branch: Branch = None,
    tag: Tag = None,
    snapshot: Snapshot = None,
    authorize: Authorize = None,
    plain: Annotated[
        bool, typer.Option("--plain", help="Values only, separated by tabs: no coordinates.")
    ] = False,
    everything: Annotated[
        bool, typer.Option("--all", help="Print any number of values.  [default: up to 10,000]")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Print an array, or a part of it, with its coordinates; of a group, the attributes.

    Values are decoded by the CF conventions: scale_factor and add_offset, missing values as nan,
    times as dates. Each line is a row of the last dimension.
    """
    labels, numbers = parse_sel(sel or []), parse_isel(isel or [])

    from frazil.cli.views.values_view import open_session, print_group, print_values
    from frazil.errors import InvalidInputError
    from frazil.paths import NodePath

    session = open_session(repo, branch, tag, snapshot, authorize or [])
    where = NodePath.from_key_prefix(path)
    if session.node(where).array is None:
        if labels or numbers:
            raise InvalidInputError(f"{path} is a group: --sel and --isel are for arrays")
        print_group(session, where)
        return

    from frazil.cli.views.values_view import select

    chosen = select(session, where, labels, numbers)
    if chosen.size > (MOST_PLAIN_VALUES if plain or as_json else MOST_VALUES) and not everything:
        raise InvalidInputError(
            f"that would print {chosen.size:,} values: choose some with --sel or --isel, write a"
            " file with `frazil read -o`, or add --all"
        )
    print_values(chosen, plain=plain, as_json=as_json)


# `frazil head`: what an array is, and how it begins.


def head(
    repo: Repo,
    path: Array,
    *,
    count: Annotated[
        int,
        typer.Option("-n", "--number", min=1, help="Values along each of the last two dimensions."),
    ] = 5,
    branch: Branch = None,
    tag: Tag = None,
    snapshot: Snapshot = None,
    authorize: Authorize = None,
    as_json: AsJson = False,
) -> None:
    """Show what an array is (shape, type, chunks, codecs, attributes), and its first values."""
    from frazil.cli.views.values_view import open_session, print_head
    from frazil.errors import InvalidInputError
    from frazil.paths import NodePath

    session = open_session(repo, branch, tag, snapshot, authorize or [])
    where = NodePath.from_key_prefix(path)
    if session.node(where).array is None:
        raise InvalidInputError(f"{path} is a group: `frazil ls` lists what is in it")
    print_head(session, where, count, as_json=as_json)


# `frazil write`: a file, as an array.


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
        typer.Option(
            metavar="NAME=LENGTH,...",
            help="Chunk lengths of a new array; other dimensions have one chunk.",
        ),
    ] = None,
    append: Annotated[
        str | None, typer.Option(metavar="NAME", help="Extend the array along this dimension.")
    ] = None,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Replace an existing array.")
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
    from frazil.cli.views.values_view import append_to, create, describe, read_file
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
        print_json({"snapshot_id": str(snapshot), "path": where.text, "shape": list(shape)})
    else:
        sizes = " x ".join(map(str, shape)) or "one value"
        print(f"committed {snapshot} to {branch}: {where} is {sizes}")


# `--sel` and `--isel` as Python has them.
#
# lat=60   lat=40..60   lat=..60   lat=10,20      labels; both ends are included
# time=0   time=0:24    time=:24   time=0,5,-1    positions; without the end

type Label = float | int | str


def parse_sel(texts: list[str]) -> dict[str, object]:
    """A label, a list of them, or a slice, by dimension."""
    found = dict[str, object]()
    for text in texts:
        name, value = _split_option(text, "--sel", "lat=60 or lat=40..60")
        start, dots, stop = value.partition("..")
        if dots:
            found[name] = slice(_label(start), _label(stop))
        elif "," in value:
            found[name] = [_label(each) for each in value.split(",")]
        else:
            found[name] = _label(value)
    return found


def parse_isel(texts: list[str]) -> dict[str, object]:
    """A number, a list of them, or a slice, by dimension."""
    found = dict[str, object]()
    for text in texts:
        name, value = _split_option(text, "--isel", "time=0 or time=0:24")
        start, colon, stop = value.partition(":")
        if colon:
            found[name] = slice(_end(text, start), _end(text, stop))
        elif "," in value:
            found[name] = [_number(text, each) for each in value.split(",")]
        else:
            found[name] = _number(text, value)
    return found


def _split_option(text: str, option: str, example: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not (name.strip() and equals and value.strip()):
        raise typer.BadParameter(f"{text!r}: write {example}", param_hint=option)
    return name.strip(), value.strip()


def _label(text: str) -> Label | None:
    """None where an end is left out."""
    if not text.strip():
        return None
    try:
        found = json.loads(text)
    except ValueError:
        return text.strip()
    return found if isinstance(found, int | float) else text.strip()


def _end(text: str, value: str) -> int | None:
    return _number(text, value) if value.strip() else None


def _number(text: str, value: str) -> int:
    try:
        return int(value)
    except ValueError:
        raise typer.BadParameter(
            f"{text!r}: {value!r} is not a position; write time=0, time=0:24 or time=0,5",
            param_hint="--isel",
        ) from None
