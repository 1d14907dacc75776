"""Types of arguments, under the name they have in Icechunk."""

from frazil.api import CommitMethod

__all__ = ["CommitMethod"]
