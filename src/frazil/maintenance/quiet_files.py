"""The files of a repository for work that goes through all of them once: nothing is remembered."""

from dataclasses import replace

from frazil.assets.files import Files
from frazil.errors import FormatError
from frazil.format.generation import CURRENT
from frazil.repo.repository import Repository


def quiet_files(repository: Repository) -> Files:
    """Manifests and chunks are forgotten at once, so that memory is what the work holds."""
    return quietened(repository.files)


def quietened(files: Files) -> Files:
    settings = replace(files.settings, cached_refs=0, cached_chunk_bytes=0, cached_changes=0)
    return files.with_settings(settings)


def require_current(repository: Repository) -> None:
    """Raises FormatError for generations before version 1, whose files are not rewritten."""
    if repository.generation not in CURRENT:
        raise FormatError(
            "this needs a repository of version 1 or 2, and this one is of generation"
            f" {repository.generation}: migrate it first",
            kind="unsupported-spec-version",
        )
