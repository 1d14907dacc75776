"""Arguments and options that several commands share, so that they read the same everywhere."""

from typing import Annotated

import typer

Repo = Annotated[
    str, typer.Argument(metavar="REPO", help="A folder, or a URL: s3://, gs://, az://, https://.")
]
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
Array = Annotated[str, typer.Argument(metavar="PATH", help="An array, such as /model/t2m.")]
Sel = Annotated[
    list[str] | None,
    typer.Option(
        "--sel",
        metavar="NAME=VALUES",
        help="By coordinate: lat=60, lat=40..60 with both ends, time=2024-01; may be repeated.",
    ),
]
Isel = Annotated[
    list[str] | None,
    typer.Option(
        "--isel",
        metavar="NAME=NUMBERS",
        help="By position: time=0, time=0:24 without the end, time=-1; may be repeated.",
    ),
]
Authorize = Annotated[
    list[str] | None,
    typer.Option(
        metavar="PREFIX=WORD",
        help="Virtual chunks that may be read: file:///data/=local, https://host/=http,"
        " s3://bucket/=anonymous, s3://bucket/=environment.",
    ),
]
