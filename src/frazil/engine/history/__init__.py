"""Commits made from other commits: revert, cherry-pick, merge, squash."""
