"""Conflicts and ways to solve them, under the name they have in Icechunk."""

# ruff: noqa: PLC0414 -- a name that is imported `as` itself is re-exported, for type checkers
# ruff: isort: skip_file

from frazil.api.conflicts import (
    BasicConflictSolver as BasicConflictSolver,
    ConflictDetector as ConflictDetector,
    ConflictSolver as ConflictSolver,
)
from frazil.errors import (
    Conflict as Conflict,
    ConflictType as ConflictType,
)
from frazil.lazy import export_all
from frazil.engine.merge.solver import VersionSelection as VersionSelection

export_all(globals())
