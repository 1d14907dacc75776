"""Repositories looked over, and put right. frazil's own, not in Icechunk."""

import asyncio

from frazil.api import actions
from frazil.api.access import GivenAccess, access_of
from frazil.api.storage import Storage
from frazil.errors import IcechunkError
from frazil.maintenance.progress import Progress
from frazil.repo import repository as engine
from frazil.zarrstore.array_codecs import chunk_problem


class VerifiedRepository:
    """The part of Repository that looks for what is wrong with it."""

    _engine: engine.Repository

    def verify(
        self, *, decode: bool = False, virtual: bool = False, progress: Progress | None = None
    ) -> "actions.VerifyReport":
        """Everything that is wrong with the files of the repository, worst first.

        `decode` reads and decodes every chunk, `virtual` asks for the objects of virtual chunks,
        as far as access to them was given. Nothing is written.
        """
        executor = actions.ThreadExecutor(actions.quiet_files(self._engine), progress)
        decoder = chunk_problem if decode else None
        return actions.verify(self._engine.raw_store, executor, virtual=virtual, decode=decoder)

    async def verify_async(
        self, *, decode: bool = False, virtual: bool = False, progress: Progress | None = None
    ) -> "actions.VerifyReport":
        return await asyncio.to_thread(
            self.verify, decode=decode, virtual=virtual, progress=progress
        )

    def repair(
        self, *, dry_run: bool = False, progress: Progress | None = None
    ) -> "actions.RepairResult":
        """Puts right what takes no guessing, and says what is left.

        What a step replaces is kept under `overwritten/damaged.`. Open the repository again after
        it: what this object remembers may be what was replaced.
        """
        return actions.repair(self._engine.raw_store, dry_run=dry_run, progress=progress)

    async def repair_async(
        self, *, dry_run: bool = False, progress: Progress | None = None
    ) -> "actions.RepairResult":
        return await asyncio.to_thread(self.repair, dry_run=dry_run, progress=progress)

    # What does not even open

    @staticmethod
    def verify_storage(
        storage: Storage,
        authorize_virtual_chunk_access: GivenAccess = None,
        *,
        decode: bool = False,
        virtual: bool = False,
        progress: Progress | None = None,
    ) -> "actions.VerifyReport":
        """As `verify`, of whatever is there: a repository that cannot be opened, or a part of one.

        If there is nothing of a repository at all, that is the problem.
        """
        access = access_of(authorize_virtual_chunk_access, storage)
        try:
            files = actions.quiet_files(engine.Repository.open(storage.store, access=access))
        except IcechunkError:
            files = actions.unopened_files(storage.store)
        executor = actions.ThreadExecutor(files, progress)
        decoder = chunk_problem if decode else None
        return actions.verify(storage.store, executor, virtual=virtual, decode=decoder)

    @staticmethod
    async def verify_storage_async(
        storage: Storage,
        authorize_virtual_chunk_access: GivenAccess = None,
        *,
        decode: bool = False,
        virtual: bool = False,
        progress: Progress | None = None,
    ) -> "actions.VerifyReport":
        return await asyncio.to_thread(
            VerifiedRepository.verify_storage,
            storage,
            authorize_virtual_chunk_access,
            decode=decode,
            virtual=virtual,
            progress=progress,
        )

    @staticmethod
    def repair_storage(
        storage: Storage, *, dry_run: bool = False, progress: Progress | None = None
    ) -> "actions.RepairResult":
        """As `repair`, of what need not open."""
        return actions.repair(storage.store, dry_run=dry_run, progress=progress)

    @staticmethod
    async def repair_storage_async(
        storage: Storage, *, dry_run: bool = False, progress: Progress | None = None
    ) -> "actions.RepairResult":
        return await asyncio.to_thread(
            VerifiedRepository.repair_storage, storage, dry_run=dry_run, progress=progress
        )
