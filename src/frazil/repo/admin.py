"""Metadata and status of a repository: what each step makes of the repo info. Pure.

A repository that is read-only or offline takes no change but one of its status. Reading goes on
in both: a status keeps writers out, it does not lock people out of their data.
"""

from collections.abc import Mapping
from dataclasses import replace

from frazil.flatbuf.flexbuffers import Json
from frazil.format.repo_info import RepoInfo
from frazil.format.update_log import MetadataChanged, RepoStatus, RepoStatusChanged, UpdateKind


def set_metadata(info: RepoInfo, metadata: Mapping[str, Json]) -> tuple[RepoInfo, UpdateKind]:
    return replace(info, metadata=dict(metadata)), MetadataChanged()


def update_metadata(info: RepoInfo, changes: Mapping[str, Json]) -> tuple[RepoInfo, UpdateKind]:
    """Keys in `changes` replace those that are there, whole values at a time."""
    return set_metadata(info, {**info.metadata, **changes})


def set_status(info: RepoInfo, status: RepoStatus) -> tuple[RepoInfo, UpdateKind]:
    return replace(info, status=status), RepoStatusChanged(status)
