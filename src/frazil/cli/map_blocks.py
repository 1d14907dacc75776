"""`frazil map-blocks`: a function of one's own over blocks of arrays."""

from collections.abc import Callable
from typing import Annotated, Any

import typer

from frazil.cli.lengths import parse_lengths
from frazil.cli.options import AsJson, Message, OnBranch, Repo


def map_blocks(
    repo: Repo,
    function: Annotated[
        str,
        typer.Argument(
            metavar="FUNCTION", help="file.py:name, or module:name that executors can import."
        ),
    ],
    inputs: Annotated[
        list[str], typer.Argument(metavar="ARRAY...", help="What it is called with.")
    ],
    *,
    outputs: Annotated[
        list[str],
        typer.Option("--output", metavar="PATH=DTYPE", help="What it makes; may be repeated."),
    ],
    blocks: Annotated[
        list[str] | None, typer.Option(metavar="NAME=LENGTH,...", help="-1 is the whole.")
    ] = None,
    halo: Annotated[
        list[str] | None, typer.Option(metavar="NAME=LENGTH,...", help="Neighbours on both sides.")
    ] = None,
    boundary: Annotated[
        str, typer.Option(help="Beyond the ends: clip, nearest, reflect, wrap or a number.")
    ] = "clip",
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Replace arrays that are there.")
    ] = False,
    branch: OnBranch = "main",
    message: Message = None,
    idempotency_key: Annotated[
        str | None, typer.Option(help="A repeated run with the same key commits nothing.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Apply a function to aligned blocks of arrays, and store what it returns, as one commit."""
    made = dict(_output(text) for text in outputs)
    lengths = parse_lengths(blocks or [], "--blocks")
    neighbours = parse_lengths(halo or [], "--halo")

    from frazil.cli.output import print_json, silence_logs
    from frazil.cli.places import open_source
    from frazil.spark.pipelines.map_blocks import map_blocks as run_map
    from frazil.spark.session import session

    called = _load(function)
    repository = open_source(repo)
    silence_logs()
    result = run_map(
        session(app_name="frazil map-blocks"), repository, called, inputs, made,
        blocks=lengths or None, halo=neighbours or None, boundary=_boundary(boundary),
        overwrite=overwrite, branch=branch, message=message, idempotency_key=idempotency_key,
    )  # fmt: skip
    if as_json:
        print_json({name: getattr(result, name) for name in type(result).__slots__})
    elif not result.committed:
        print(f"nothing to do: {result.snapshot_id} has that key")
    else:
        print(
            f"committed {result.snapshot_id} to {branch}: {result.arrays} arrays,"
            f" {result.blocks} blocks, {result.bytes / 1e6:.1f} MB in {result.seconds:.1f} s"
        )


def _output(text: str) -> tuple[str, str]:
    path, equals, dtype = text.rpartition("=")
    if not equals or not path or not dtype:
        raise typer.BadParameter(f"{text!r} is not PATH=DTYPE", param_hint="--output")
    return path, dtype


def _boundary(text: str) -> str | float:
    try:
        return float(text)
    except ValueError:
        return text


def _load(text: str) -> Callable[..., Any]:
    """A function of a file travels to executors by value, one of a module by name."""
    import importlib
    import importlib.util
    from pathlib import Path

    where, colon, name = text.rpartition(":")
    if not colon or not where or not name:
        raise typer.BadParameter(f"{text!r} is not file.py:name or module:name")
    if not where.endswith(".py"):
        try:
            found: Any = importlib.import_module(where)
        except ImportError as error:
            raise typer.BadParameter(f"cannot import {where!r}: {error}") from error
    else:
        if not Path(where).is_file():
            raise typer.BadParameter(f"there is no file {where}")
        spec = importlib.util.spec_from_file_location(f"_frazil_{Path(where).stem}", where)
        if spec is None or spec.loader is None:
            raise typer.BadParameter(f"{where} is no Python file")
        found = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(found)
    called = getattr(found, name, None)
    if not callable(called):
        raise typer.BadParameter(f"there is no function {name!r} in {where}")
    return called  # type: ignore[no-any-return]  # of somebody's module
