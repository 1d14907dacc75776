"""The `frazil` command: its subcommands, and the one place where errors become text.

    exit code   meaning
        0       done
        1       it failed; one line on standard error says why
        2       the command line is wrong
        3       somebody else changed the repository first: look, then run it again
        4       what is wanted contradicts what is on the branch; nothing was changed
        5       the repository has problems: `frazil verify` lists them
       70       a bug in frazil
      130       interrupted

Modules of this package import only typer and each other at the top: `frazil --help` must be fast.
"""

import sys
from collections.abc import Callable
from typing import Annotated

import typer

from frazil.cli import (
    branch,
    cherry_pick,
    clone,
    diff,
    dump,
    expire,
    export,
    gc,
    import_bundle,
    import_kerchunk,
    ingest,
    init,
    log,
    ls,
    map_blocks,
    merge,
    migrate,
    ops,
    pack,
    purge,
    rechunk,
    reduce,
    reset,
    revert,
    rewrite_manifests,
    sql,
    squash,
    stats,
    tag,
    unpack,
    verify,
)
from frazil.cli.failure import describe

DEBUG = "--debug"
COMMANDS: tuple[Callable[..., None], ...] = (
    init.init,
    ingest.ingest,
    import_kerchunk.import_kerchunk,
    rechunk.rechunk,
    reduce.reduce,
    map_blocks.map_blocks,
    export.export,
    clone.clone,
    import_bundle.import_,
    migrate.migrate,
    sql.sql,
    log.log,
    ls.ls,
    diff.diff,
    ops.ops,
    dump.dump,
    revert.revert,
    cherry_pick.cherry_pick,
    merge.merge,
    squash.squash,
    reset.reset,
    stats.stats,
    expire.expire,
    gc.gc,
    rewrite_manifests.rewrite_manifests,
    pack.pack,
    unpack.unpack,
    purge.purge,
    verify.verify,
)

app = typer.Typer(
    name="frazil",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,  # plain help: rich alone would double the time to show it
)
for command in COMMANDS:
    app.command(command.__name__.rstrip("_").replace("_", "-"))(command)
app.add_typer(branch.app, name="branch")
app.add_typer(tag.app, name="tag")


def _print_version(*, wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        print(f"frazil {version('frazil')}")
        raise typer.Exit


@app.callback()
def options(
    *,
    debug: Annotated[
        bool, typer.Option(DEBUG, help="Show the whole trace of an error; may stand anywhere.")
    ] = False,
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_print_version, is_eager=True, help="Show the version and exit."
        ),
    ] = False,
) -> None:
    """Versioned, transactional Zarr arrays (Icechunk repositories), with a pipeline on Spark."""


def main() -> None:
    """Run the command line of this process and exit with its code."""
    arguments = sys.argv[1:]
    try:
        app(args=[each for each in arguments if each != DEBUG], prog_name="frazil")
    except Exception as error:  # the last door: beyond it there is only the user
        if DEBUG in arguments:
            raise
        failure = describe(error)
        print(failure.text, file=sys.stderr)
        sys.exit(failure.exit_code)
