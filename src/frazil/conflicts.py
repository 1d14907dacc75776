"""Conflicts and ways to solve them, under the name they have in Icechunk."""

# ruff: noqa: PLC0414 -- a name that is imported `as` itself is re-exported, for type checkers
# ruff: isort: skip_file

from frazil.api.conflicts import (
    BasicConflictSolver as BasicConflictSolver,
    Conflict as Conflict,
    ConflictDetector as ConflictDetector,
    ConflictSolver as ConflictSolver,
    ConflictType as ConflictType,
    VersionSelection as VersionSelection,
)
from frazil.lazy import export_all

export_all(globals())
