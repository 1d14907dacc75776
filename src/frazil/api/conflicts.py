"""Conflicts and their solvers, with Icechunk's names and signatures."""

from frazil.engine.merge.rebase import Rebasing
from frazil.engine.merge.solver import Policy, VersionSelection
from frazil.errors import Conflict, ConflictType

__all__ = [
    "BasicConflictSolver",
    "Conflict",
    "ConflictDetector",
    "ConflictSolver",
    "ConflictType",
    "VersionSelection",
]


class ConflictSolver:
    """A way to solve the conflicts of `Session.rebase`. Use one of its subclasses."""

    def __init__(self) -> None:
        raise TypeError("use a ConflictDetector or a BasicConflictSolver")

    @property
    def policy(self) -> Policy:
        """The solver as the engine takes it."""
        raise NotImplementedError


class ConflictDetector(ConflictSolver):
    """Solves nothing: a rebase fails at the first commit with which there is a conflict."""

    def __init__(self) -> None:
        pass

    def __repr__(self) -> str:
        return "ConflictDetector()"

    @property
    def policy(self) -> Policy:
        return Policy()


class BasicConflictSolver(ConflictSolver):
    """Solves conflicts about chunks, and about deleting what others updated.

    `merge_appends` is frazil's own: two sessions that did no more to an array's metadata than
    extend its shape, and wrote different chunks, are both right; the larger shape is taken.
    """

    def __init__(
        self,
        *,
        on_chunk_conflict: VersionSelection = VersionSelection.UseOurs,
        fail_on_delete_of_updated_array: bool = False,
        fail_on_delete_of_updated_group: bool = False,
        merge_appends: bool = False,
    ) -> None:
        if not isinstance(on_chunk_conflict, VersionSelection):
            raise TypeError(
                f"on_chunk_conflict is {on_chunk_conflict!r}, expected a VersionSelection"
            )
        self._policy = Policy(
            on_chunk_conflict=on_chunk_conflict,
            delete_updated_arrays=not fail_on_delete_of_updated_array,
            delete_updated_groups=not fail_on_delete_of_updated_group,
            merge_appends=merge_appends,
        )

    def __repr__(self) -> str:
        policy = self._policy
        return (
            f"BasicConflictSolver(on_chunk_conflict={policy.on_chunk_conflict!r},"
            f" fail_on_delete_of_updated_array={not policy.delete_updated_arrays},"
            f" fail_on_delete_of_updated_group={not policy.delete_updated_groups},"
            f" merge_appends={policy.merge_appends})"
        )

    @property
    def policy(self) -> Policy:
        return self._policy


def policy_of(solver: ConflictSolver) -> Policy:
    if not isinstance(solver, ConflictSolver):
        raise TypeError(f"{solver!r} is not a ConflictSolver")
    return solver.policy


def rebasing_of(solver: ConflictSolver | None, tries: int) -> Rebasing | None:
    """None if a commit is not to be rebased; the number of tries is checked all the same."""
    rebasing = Rebasing(Policy() if solver is None else policy_of(solver), tries)
    return None if solver is None else rebasing
