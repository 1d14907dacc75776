"""Arguments and options that several commands share, so that they read the same everywhere."""

from typing import Annotated

import typer

Repo = Annotated[str, typer.Argument(metavar="REPO", help="Directory of the repository.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON, for programs.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Show what would be done.")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]
Commit = Annotated[
    str, typer.Argument(metavar="COMMIT", help="Id of a snapshot, a branch, a tag, or main~1.")
]
OnBranch = Annotated[str, typer.Option("--branch", help="The branch that is changed.")]
Message = Annotated[
    str | None, typer.Option("-m", "--message", help="Of the new commit, if not the usual one.")
]
Branch = Annotated[str | None, typer.Option(help="The tip of this branch.  [default: main]")]
Tag = Annotated[str | None, typer.Option(help="The snapshot of this tag.")]
Snapshot = Annotated[str | None, typer.Option(metavar="ID", help="This snapshot.")]
