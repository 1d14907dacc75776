"""`frazil init`: an empty repository."""

from frazil.cli.options import Repo


def init(repo: Repo) -> None:
    """Make an empty repository in a new or empty directory."""
    from frazil.cli.repositories import store_at
    from frazil.repo.repository import Repository

    Repository.create(store_at(repo))
    print(f"created an empty repository in {repo}")
