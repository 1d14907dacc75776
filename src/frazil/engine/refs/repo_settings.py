"""Settings of a repository: feature flags, metadata, status, and the configuration of a caller.

Changes are pure steps from one repo info to the next, as in refs.py. Feature flags are operations
that a repository can switch off: the repo info lists a flag only if it was set, and flags of newer
clients stay as they are. A repository that is read-only or offline accepts no change but one of its
status; reading goes on in both.
"""

import re
from collections.abc import Iterator, Mapping
from copy import deepcopy
from dataclasses import replace
from itertools import chain

from frazil.dataclass import dataclass
from frazil.errors import (
    FormatError,
    InvalidInputError,
    SessionStateError,
    require_type,
)
from frazil.flatbuf.flexbuffers import Json
from frazil.format.conditions import (
    ManifestPreloadCondition,
    ManifestSplitCondition,
    PreloadAnd,
    PreloadNameMatches,
    PreloadOr,
    PreloadPathMatches,
    SplitAnd,
    SplitDimensionName,
    SplitNameMatches,
    SplitOr,
    SplitPathMatches,
)
from frazil.format.config import ManifestConfig, RepositoryConfig
from frazil.format.repo_info import RepoInfo
from frazil.format.storage_config import require_container
from frazil.format.update_log import (
    FeatureFlagChanged,
    MetadataChanged,
    RepoStatus,
    RepoStatusChanged,
    UpdateKind,
)


@dataclass(frozen=True, slots=True)
class Flag:
    id: int  # as stored
    name: str
    default_enabled: bool = True


MOVE_NODE = Flag(3, "move_node")
CREATE_TAG = Flag(4, "create_tag")
DELETE_TAG = Flag(5, "delete_tag")
FLAGS = (MOVE_NODE, CREATE_TAG, DELETE_TAG)


def require_flag(name: str) -> Flag:
    for flag in FLAGS:
        if flag.name == name:
            return flag
    raise InvalidInputError(f"invalid feature flag name: {name}", kind="invalid-feature-flag")


def flag_setting(info: RepoInfo, flag: Flag) -> bool | None:
    """The value that was set; None where the default holds."""
    if flag.id in info.disabled_flags:
        return False
    return True if flag.id in info.enabled_flags else None


def is_enabled(info: RepoInfo, flag: Flag) -> bool:
    found = flag_setting(info, flag)
    return flag.default_enabled if found is None else found


def require_enabled(info: RepoInfo, flag: Flag, *, doing: str) -> None:
    if not is_enabled(info, flag):
        raise SessionStateError(
            f"{doing} is disabled by a feature flag ({flag.name})", kind="feature-flag-disabled"
        )


def set_flag(info: RepoInfo, flag: Flag, value: bool | None) -> tuple[RepoInfo, UpdateKind]:  # noqa: FBT001 -- three values, not a switch
    """Switches a flag on or off; None restores the default."""
    enabled = {*info.enabled_flags} - {flag.id} | ({flag.id} if value is True else set())
    disabled = {*info.disabled_flags} - {flag.id} | ({flag.id} if value is False else set())
    info = replace(
        info, enabled_flags=tuple(sorted(enabled)), disabled_flags=tuple(sorted(disabled))
    )
    return info, FeatureFlagChanged(flag.id, value)


def set_metadata(info: RepoInfo, metadata: Mapping[str, Json]) -> tuple[RepoInfo, UpdateKind]:
    return replace(info, metadata=dict(metadata)), MetadataChanged()


def update_metadata(info: RepoInfo, changes: Mapping[str, Json]) -> tuple[RepoInfo, UpdateKind]:
    """Keys in `changes` replace those that are there, whole values at a time."""
    return set_metadata(info, {**info.metadata, **changes})


def set_status(info: RepoInfo, status: RepoStatus) -> tuple[RepoInfo, UpdateKind]:
    return replace(info, status=status), RepoStatusChanged(status)


GROUP_COMMIT = "frazil.group_commit"
"""Metadata of a repository: true if writers may make the commits of others.

Not a part of the configuration: the reference would drop what it does not know when it saves one.
It keeps metadata as they are, and they are part of the very object that commits replace.
"""


def commits_in_groups(info: RepoInfo) -> bool:
    return info.metadata.get(GROUP_COMMIT) is True


def require_version_2(spec_version: int) -> None:
    if spec_version < 2:
        raise unsupported_version_error()


def unsupported_version_error() -> FormatError:
    return FormatError(
        "repository version error, this operation requires a repository that is at least version"
        " 2.0, please upgrade your on-disk format before executing this operation",
        kind="unsupported-spec-version",
    )


def require_config(config: RepositoryConfig | None) -> RepositoryConfig:
    """A checked copy of the configuration that a caller gave; theirs may change later.

    Stored configurations are not checked so: a rule with an invalid expression never matches, and a
    repository that has one can still be opened.
    """
    if config is None:
        return RepositoryConfig()
    require_type(config, RepositoryConfig)
    for container in (config.virtual_chunk_containers or {}).values():
        require_container(container)
    for regex in _regexes(config.manifest or ManifestConfig()):
        try:
            re.compile(regex)
        except re.error as error:
            raise InvalidInputError(
                f"{regex!r} is not a regular expression, so that its rule would never fit: {error}",
                kind="storage-config",
            ) from error
    return deepcopy(config)


def _regexes(manifest: ManifestConfig) -> Iterator[str]:
    if manifest.splitting is not None:
        for arrays, sizes in manifest.splitting.split_sizes or ():
            yield from _in_condition(arrays)
            for axes, _ in sizes:
                if isinstance(axes, SplitDimensionName):
                    yield axes.regex
    if manifest.preload is not None and manifest.preload.preload_if is not None:
        yield from _in_condition(manifest.preload.preload_if)


def _in_condition(condition: ManifestSplitCondition | ManifestPreloadCondition) -> Iterator[str]:
    match condition:
        case (
            SplitPathMatches(regex)
            | SplitNameMatches(regex)
            | PreloadPathMatches(regex)
            | PreloadNameMatches(regex)
        ):
            yield regex
        case SplitOr(parts) | SplitAnd(parts):
            yield from chain.from_iterable(map(_in_condition, parts))
        case PreloadOr(others) | PreloadAnd(others):
            yield from chain.from_iterable(map(_in_condition, others))
