"""`frazil reset`: a branch put at another snapshot."""

from typing import TYPE_CHECKING

from frazil.cli.options import AsJson, Commit, DryRun, OnBranch, Repo, Yes

if TYPE_CHECKING:
    from frazil.ids import SnapshotId
    from frazil.repo.repository import Repository


def reset(
    repo: Repo,
    commit: Commit,
    *,
    branch: OnBranch = "main",
    dry_run: DryRun = False,
    yes: Yes = False,
    as_json: AsJson = False,
) -> None:
    """Put a branch at another snapshot; commits that nothing leads to then are collected later."""
    from frazil.cli.consent import require_consent
    from frazil.cli.output import print_json
    from frazil.cli.repositories import open_repository, resolve

    repository = open_repository(repo)
    target, tip = resolve(repository, commit), repository.lookup_branch(branch)
    left = _only_in(repository, tip, target)
    if not dry_run:
        if left:
            require_consent(
                f"Take {len(left)} commit{'s' if len(left) > 1 else ''} off branch {branch}?",
                given=yes,
            )
        repository.reset_branch(branch, target, expected=tip)
    if as_json:
        facts = {"dry_run": dry_run, "branch": branch, "from": str(tip), "to": str(target)}
        print_json({**facts, "left": [str(each) for each in left]})
        return
    print(f"branch {branch} {'would go' if dry_run else 'went'} from {tip} to {target}")
    for each in left:
        print(f"  off the branch: {each}")


def _only_in(
    repository: "Repository", tip: "SnapshotId", target: "SnapshotId"
) -> list["SnapshotId"]:
    """Snapshots that lead to `tip` and not to `target`, newest first."""
    from frazil.repo.version import Exactly

    kept = {record.id for record in repository.ancestry(Exactly(target))}
    return [each.id for each in repository.ancestry(Exactly(tip)) if each.id not in kept]
