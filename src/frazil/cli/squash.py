"""`frazil squash`: a range of history as one commit."""

from typing import Annotated

import typer

from frazil.cli.options import AsJson, DryRun, OnBranch, Repo, Yes


def squash(
    repo: Repo,
    first: Annotated[str, typer.Argument(metavar="FIRST", help="The oldest commit of the range.")],
    last: Annotated[
        str | None, typer.Argument(metavar="LAST", help="The newest.  [default: the tip]")
    ] = None,
    *,
    message: Annotated[str, typer.Option("-m", "--message", help="Of the one commit.")],
    branch: OnBranch = "main",
    dry_run: DryRun = False,
    yes: Yes = False,
    as_json: AsJson = False,
) -> None:
    """Make a range of a branch's history one commit; commits after it get new ids."""
    from dataclasses import replace

    from frazil.cli.consent import require_consent
    from frazil.cli.output import print_json
    from frazil.cli.repositories import open_repository, resolve
    from frazil.cli.views.differences import diff_as_json, diff_as_text
    from frazil.repo import squash as engine

    repository = open_repository(repo)
    request = engine.SquashRequest(
        branch=branch,
        first=resolve(repository, first),
        last=None if last is None else resolve(repository, last),
        message=message,
        dry_run=True,
    )
    done = engine.squash(repository, request)
    if not dry_run:
        count, followers = len(done.squashed), len(done.followers)
        require_consent(
            f"Replace {count} commits of branch {branch}"
            f"{f' and list {followers} anew' if followers else ''}?",
            given=yes,
        )
        done = engine.squash(repository, replace(request, dry_run=False))
    if as_json:
        print_json(
            {
                "dry_run": dry_run,
                "snapshot": None if done.snapshot is None else str(done.snapshot),
                "tip": None if done.tip is None else str(done.tip),
                "squashed": list(map(str, done.squashed)),
                "followers": list(map(str, done.followers)),
                "applied": diff_as_json(done.applied),
            }
        )
        return
    what = f"{len(done.squashed)} commits"
    print(f"{what} would be one" if done.tip is None else f"{what} are one: {done.snapshot}")
    if done.tip is not None:
        print(f"branch {branch} is now at new snapshot {done.tip}")
    print(diff_as_text(done.applied) or "no changes")
