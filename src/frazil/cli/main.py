"""The `frazil` command, and the one place where errors become text.

Commands are listed in commands.py, and loaded when they are wanted. Their modules import only
typer and what is small at the top: `frazil COMMAND --help` must be fast, too.
"""

import os
import sys
from typing import Annotated

import typer

from frazil.cli.commands import PLAIN, LoadingGroup
from frazil.cli.failure import EXIT_CODES, describe
from frazil.cli.output import Guarded, neutral

DEBUG = "--debug"
COMPLETING = "_FRAZIL_COMPLETE"  # set by the scripts of `frazil completion`
app = typer.Typer(
    name="frazil",
    cls=LoadingGroup,
    no_args_is_help=True,
    epilog="\b\nExit codes:\n"
    + "\n".join(f"  {code:<4} {meaning}" for code, meaning in EXIT_CODES.items()),
    **PLAIN,
)


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
    """Versioned, transactional Zarr arrays (Icechunk repositories), with a pipeline on Spark.

    REPO is a folder, or a URL: s3://bucket/prefix, gs://bucket/prefix, az://container/prefix,
    https://host/path. COMMIT is a branch, a tag, the id of a snapshot, or main~1.
    """


def main() -> None:
    """Run the command line of this process and exit with its code."""
    with Guarded():
        _main()


def _main() -> None:
    arguments = sys.argv[1:]
    if COMPLETING in os.environ:
        from typer.completion import completion_init  # type: ignore[attr-defined]  # public

        completion_init()
    try:
        code = app(
            args=[each for each in arguments if each != DEBUG],
            prog_name="frazil",
            standalone_mode=False,
        )
    except (Exception, typer.Abort) as error:  # noqa: BLE001 -- beyond it there is only the user
        failure = describe(error)
        if DEBUG in arguments:
            import traceback

            traceback.print_exception(error)
        print(neutral(failure.text) if sys.stderr.isatty() else failure.text, file=sys.stderr)
        sys.exit(failure.exit_code)
    sys.exit(code if isinstance(code, int) else 0)
