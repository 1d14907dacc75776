"""Which commits a ref leads to."""

from frazil.ids import SnapshotId
from frazil.repo.repository import Repository
from frazil.repo.version import Exactly


def only_by(repository: Repository, branch: str) -> list[SnapshotId]:
    """Snapshots to which no other branch and no tag leads, newest first."""
    branches = repository.branches()
    others = {tip for name, tip in branches.items() if name != branch}
    others |= set(repository.tags().values())
    kept = {record.id for tip in others for record in repository.ancestry(Exactly(tip))}
    walk = repository.ancestry(Exactly(branches[branch])) if branch in branches else ()
    return [record.id for record in walk if record.id not in kept]
