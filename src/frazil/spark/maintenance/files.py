"""The files of a repository on an executor."""

from dataclasses import dataclass, replace

from frazil.assets.files import Files
from frazil.assets.settings import Settings
from frazil.assets.virtual.access import VirtualAccess
from frazil.maintenance.quiet_files import quietened
from frazil.objectstore.protocol import ObjectStore
from frazil.repo.entries import files_of
from frazil.repo.repository import Repository


@dataclass(frozen=True, slots=True)
class ExecutorFiles:
    """Opens the files on an executor; picklable. Virtual chunks cannot be read with it."""

    store: ObjectStore
    settings: Settings

    @classmethod
    def of(cls, repository: Repository) -> "ExecutorFiles":
        # Credentials for virtual chunks stay on the driver.
        settings = replace(repository.files.settings, virtual=VirtualAccess())
        return cls(repository.raw_store, settings)

    def open(self) -> Files:
        return quietened(files_of(self.store, self.settings))
