"""How the changes of a session become a snapshot."""

import asyncio
from typing import Any

from frazil.api.conflicts import ConflictSolver, policy_of, rebasing_of
from frazil.repo import session as engine
from frazil.repo.commit_metadata import require_message


class Transactions:
    """The part of a Session that ends it: after each of these but `rebase` it is read-only."""

    _engine: engine.Session

    def commit(
        self,
        message: str,
        metadata: dict[str, Any] | None = None,
        *,
        rebase_with: ConflictSolver | None = None,
        rebase_tries: int = 1_000,
        allow_empty: bool = False,
    ) -> str:
        """Id of the new snapshot, which is the tip of the branch from then on.

        If the branch has moved, the changes are rebased by `rebase_with`, up to `rebase_tries`
        times; without it ConflictError is raised. If it comes to that the changes are kept.
        """
        require_message(message)
        rebasing = rebasing_of(rebase_with, rebase_tries)
        return str(
            self._engine.commit(message, metadata, allow_empty=allow_empty, rebasing=rebasing)
        )

    async def commit_async(
        self,
        message: str,
        metadata: dict[str, Any] | None = None,
        *,
        rebase_with: ConflictSolver | None = None,
        rebase_tries: int = 1_000,
        allow_empty: bool = False,
    ) -> str:
        return await asyncio.to_thread(
            self.commit,
            message,
            metadata,
            rebase_with=rebase_with,
            rebase_tries=rebase_tries,
            allow_empty=allow_empty,
        )

    def amend(
        self,
        message: str,
        *,
        metadata: dict[str, Any] | None = None,
        allow_empty: bool = False,
    ) -> str:
        """Id of a new snapshot in the place of the branch's last one, with the changes of both.

        Message and metadata are those given here. The first snapshot of a repository cannot be
        amended, and a branch that has moved cannot either: ConflictError.
        """
        require_message(message)
        return str(self._engine.amend(message, metadata, allow_empty=allow_empty))

    async def amend_async(
        self,
        message: str,
        *,
        metadata: dict[str, Any] | None = None,
        allow_empty: bool = False,
    ) -> str:
        return await asyncio.to_thread(
            self.amend, message, metadata=metadata, allow_empty=allow_empty
        )

    def flush(self, message: str, *, metadata: dict[str, Any] | None = None) -> str:
        """Id of a new snapshot that no branch leads to: tag it, or it will be collected."""
        require_message(message)
        return str(self._engine.flush(message, metadata))

    async def flush_async(self, message: str, *, metadata: dict[str, Any] | None = None) -> str:
        return await asyncio.to_thread(self.flush, message, metadata=metadata)

    def rebase(self, solver: ConflictSolver) -> None:
        """Carries the changes over what was committed to the branch since the session began.

        Raises RebaseFailedError, with all conflicts, at the first commit where the solver does
        not solve them all; the session is then based on the commit before that one.
        """
        self._engine.rebase(policy_of(solver))

    async def rebase_async(self, solver: ConflictSolver) -> None:
        await asyncio.to_thread(self.rebase, solver)
