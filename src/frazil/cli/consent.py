"""Asking before history is changed that somebody may count on."""

import sys

import typer


def require_consent(question: str, *, given: bool) -> None:
    """Asks at a terminal; elsewhere --yes must have been given."""
    if given:
        return
    if not sys.stdin.isatty():
        raise typer.BadParameter(f"{question} There is nobody to ask: add --yes")
    typer.confirm(question, abort=True, err=True)
