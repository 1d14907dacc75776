"""Arguments that say which snapshot, or which version of the format, is meant."""

from datetime import datetime
from operator import index
from typing import Literal

from frazil.api.values import SpecVersion
from frazil.clock import from_datetime
from frazil.errors import require_type
from frazil.format.generation import Generation
from frazil.ids import SnapshotId
from frazil.repo.version import Branch, BranchAsOf, Exactly, Tag, Version

type AlphaVersion = Literal["alpha1", "alpha2"]

_LARGEST_VERSION = 255  # a byte of the file header


def require_version(
    *,
    branch: str | None,
    tag: str | None,
    snapshot_id: str | None,
    as_of: datetime | None = None,
) -> Version:
    """Raises ValueError unless exactly one is given, and `as_of` only with a branch."""
    for name in (branch, tag, snapshot_id):
        require_type(name, str | None)
    require_type(as_of, datetime | None)
    match branch, tag, snapshot_id, as_of:
        case (None, _, _, datetime()):
            raise ValueError("as_of argument must be provided together with a branch name")
        case (str(name), None, None, None):
            return Branch(name)
        case (str(name), None, None, datetime() as when):
            return BranchAsOf(name, from_datetime(when))
        case (None, str(name), None, None):
            return Tag(name)
        case (None, None, str(text), None):
            return Exactly(SnapshotId.parse(text))
        case _:
            raise ValueError("Must provide one of branch, tag, or snapshot_id")


def require_spec_version(version: SpecVersion | int | AlphaVersion | None) -> Generation:
    """Generation of a repository to be created: the newest unless said otherwise."""
    match version:
        case None:
            return Generation.V2
        case "alpha2":
            return Generation.A2E
        case "alpha1":
            return Generation.ALPHA1
    try:
        number = index(version)
    except TypeError:
        number = -1
    if not 0 <= number <= _LARGEST_VERSION:
        raise ValueError(f"Couldn't parse a valid version: {version!r}")
    match number:
        case SpecVersion.v2:
            return Generation.V2
        case SpecVersion.v1:
            return Generation.V1
    raise ValueError(f"Unsupported version {number}")
