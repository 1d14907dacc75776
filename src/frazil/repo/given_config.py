"""The configuration that a caller gives, checked for what its fields alone cannot tell.

What is stored is not checked so: a rule that cannot be understood never fits, and a repository
that has one can still be opened.
"""

import re
from collections.abc import Iterator
from copy import deepcopy
from itertools import chain

from frazil.errors import (
    InvalidInputError,
    require_type,
)
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
from frazil.format.storage_config import require_container


def given_config(config: RepositoryConfig | None) -> RepositoryConfig:
    """A copy, so that the caller may go on changing theirs."""
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
