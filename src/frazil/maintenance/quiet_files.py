"""The files of a repository for work that goes through all of them once: nothing is remembered."""

from dataclasses import replace

from frazil.assets.files import Files
from frazil.repo.repository import Repository


def quiet_files(repository: Repository) -> Files:
    """Manifests and chunks are forgotten at once, so that memory is what the work holds."""
    return quietened(repository.files)


def quietened(files: Files) -> Files:
    settings = replace(files.settings, cached_refs=0, cached_chunk_bytes=0, cached_changes=0)
    return Files(files.store, settings)
