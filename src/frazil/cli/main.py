"""The `frazil` command, and the one place where errors become text.

Commands are listed in commands.py, and loaded when they are wanted. Their modules import only
typer and what is small at the top: `frazil COMMAND --help` must be fast, too.
"""

import os
import sys
from dataclasses import replace
from typing import Annotated

import typer

from frazil.cli.commands import COMMANDS, PLAIN, LoadingGroup
from frazil.cli.failure import EXIT_CODES, INTERRUPTED, Failure, describe
from frazil.cli.output import Guarded, neutral

DEBUG = "--debug"
COMPLETING = "_FRAZIL_COMPLETE"  # set by the scripts of `frazil completion`
app = typer.Typer(
    name="frazil",
    cls=LoadingGroup,
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"]},
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
        bool,
        typer.Option(
            DEBUG, help="Show the full traceback of an error. Works anywhere on the line."
        ),
    ] = False,
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_print_version, is_eager=True, help="Show the version and exit."
        ),
    ] = False,
) -> None:
    """Versioned, transactional Zarr arrays (Icechunk repositories), with a pipeline on Spark.

    REPO is a folder, a URL (s3://bucket/prefix, gs://bucket/prefix, az://container/prefix,
    https://host/path), or a name that `frazil repo add` gave it. COMMIT is a branch, a tag, a
    snapshot id or its first letters, or main~1.
    """


def main() -> None:
    """Run the command line of this process and exit with its code."""
    # numpy would start threads for linear algebra, which no command uses, and they wait busily:
    # 0.1 of the 0.33 s that `frazil log` took
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    with Guarded():
        _main()


def _main() -> None:
    arguments = sys.argv[1:]
    if COMPLETING in os.environ:
        from typer.completion import completion_init  # type: ignore[attr-defined]  # public

        completion_init()
    try:
        code = _run([each for each in arguments if each != DEBUG])
    except (Exception, KeyboardInterrupt, typer.Abort) as error:  # noqa: BLE001 -- beyond it there is only the user
        command = next((each for each in arguments if not each.startswith("-")), "")
        failure = _with_suggestion(describe(error, command), error)
        if DEBUG in arguments:
            import traceback

            traceback.print_exception(error)
        text = failure.json if "--json" in arguments else failure.text
        print(neutral(text) if sys.stderr.isatty() else text, file=sys.stderr)
        sys.exit(failure.exit_code)
    sys.exit(code)


def _with_suggestion(failure: Failure, error: BaseException) -> Failure:
    """Adds the name that was perhaps meant, of what the opened repository has."""
    opened = sys.modules.get("frazil.cli.repositories")
    meant = None if opened is None else opened.suggestion(error)
    return failure if meant is None else replace(failure, hint=f"did you mean {meant!r}?")


def _run(arguments: list[str]) -> int:
    if arguments[:1] == ["help"] and (len(arguments) == 1 or arguments[1] in COMMANDS):
        arguments = [*arguments[1:], "--help"]
    code = app(args=arguments, prog_name="frazil", standalone_mode=False)
    if code == INTERRUPTED:  # typer has caught it
        raise KeyboardInterrupt
    return code if isinstance(code, int) else 0
