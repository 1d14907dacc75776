"""Arguments and options that several commands share, so that they read the same everywhere."""

from typing import Annotated

import typer

Repo = Annotated[str, typer.Argument(metavar="REPO", help="Directory of the repository.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON, for programs.")]
Branch = Annotated[str | None, typer.Option(help="The tip of this branch.  [default: main]")]
Tag = Annotated[str | None, typer.Option(help="The snapshot of this tag.")]
Snapshot = Annotated[str | None, typer.Option(metavar="ID", help="This snapshot.")]
