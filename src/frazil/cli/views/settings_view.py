"""The configuration of a repository as keys and values: `caching.num_chunk_refs`."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields, is_dataclass
from difflib import get_close_matches
from typing import Any

from frazil.engine.repository import Repository
from frazil.errors import FormatError, InvalidInputError
from frazil.flatbuf.flexbuffers import Json
from frazil.format.config import (
    ManifestVirtualChunkLocationCompressionConfig,
    RepositoryConfig,
)
from frazil.format.config_codec import decode_config, encode_config
from frazil.format.storage_config import (
    StorageConcurrencySettings,
    StorageRetriesSettings,
    StorageSettings,
    StorageTimeoutSettings,
)

# Parts that are None unless they are set; shown only then.
_QUIET = ("storage.", "virtual_chunk_containers", "manifest.splitting")
_EMPTY_PARTS: dict[str, Any] = {
    "storage": StorageSettings(),
    "storage.concurrency": StorageConcurrencySettings(),
    "storage.retries": StorageRetriesSettings(),
    "storage.timeouts": StorageTimeoutSettings(),
    "manifest.virtual_chunk_location_compression": ManifestVirtualChunkLocationCompressionConfig(),
}


@dataclass(frozen=True, slots=True)
class Setting:
    key: str
    value: Json
    stored: bool  # or else the default

    @property
    def shown(self) -> bool:
        """True if a list should show the setting: settings of the storage only where they are
        stored.
        """
        return self.stored or not self.key.startswith(_QUIET)

    @property
    def text(self) -> str:
        return self.value if isinstance(self.value, str) else json.dumps(self.value)


def settings_of(config: RepositoryConfig) -> list[Setting]:
    """Every setting there is, in the order of the fields."""
    found = _settings("", config, encode_config(config))
    return [each for each in found if each.key != "previous_file"]


def _settings(above: str, record: Any, stored: Json) -> Iterator[Setting]:
    """`stored` is None for a record that is a default itself."""
    given = stored if isinstance(stored, dict) else {}
    for each in fields(record):
        key = f"{above}{each.name}"
        value, found = getattr(record, each.name), given.get(each.name)
        part = _first_set(value, each.metadata.get("default"), _EMPTY_PARTS.get(key))
        if is_dataclass(part) and _is_part(part):
            yield from _settings(f"{key}.", part, found)
        else:
            yield Setting(key, _plain_value(part) if found is None else found, found is not None)


def _first_set(*values: Any) -> Any:
    return next((value for value in values if value is not None), None)


def _is_part(value: Any) -> bool:
    """Made of settings of its own, rather than an alternative."""
    return type(value).__name__.endswith(("Config", "Settings"))


def _plain_value(value: Any) -> Json:
    found: Json = value.name.lower() if hasattr(value, "name") else value
    return found


def require_setting(settings: Sequence[Setting], key: str) -> Setting:
    for each in settings:
        if each.key == key:
            return each
    keys = [each.key for each in settings]
    inside = [name for name in keys if name.startswith(f"{key}.")]
    close = get_close_matches(key, keys, n=1)
    if inside:
        raise InvalidInputError(f"{key!r} has parts: {', '.join(inside)}")
    raise InvalidInputError(
        f"there is no setting {key!r}" + (f"; did you mean {close[0]!r}?" if close else "")
    )


def store_setting(repository: Repository, key: str, text: str) -> RepositoryConfig:
    """The configuration with it, which is stored."""
    stored: Any = encode_config(repository.config)
    place, (*above, name) = stored, key.split(".")
    for part in above:
        if place.get(part) is None:
            place[part] = {}
        place = place[part]
    place[name] = None if text == "default" else _value(text)
    _require_in_range(key, place[name])
    try:
        config = decode_config(stored)
    except FormatError as error:
        raise InvalidInputError(f"{key} cannot be {text}: {error}") from error
    changed = Repository(
        repository.raw_store,
        config,
        repository.clock,
        spec_version=repository.spec_version,
        generation=repository.generation,
    )
    changed.save_config()
    return config


# What a field of the format could hold, and what makes sense; both ends are included.
_RANGES: dict[str, tuple[int, int | None]] = {
    "compression.level": (1, 22),  # those of zstd
    "get_partial_values_concurrency": (1, None),
    "max_concurrent_requests": (1, None),
    "max_concurrent_decodes": (1, None),
    "num_updates_per_repo_info_file": (1, None),
    "repo_update_retries.default.max_tries": (1, None),
}


def _require_in_range(key: str, value: Json) -> None:
    least, most = _RANGES.get(key, (None, None))
    if not isinstance(value, int) or least is None:
        return
    if value < least or (most is not None and value > most):
        expected = f"from {least} to {most}" if most is not None else f"at least {least}"
        raise InvalidInputError(f"{key} cannot be {value}: it is {expected}")


def _value(text: str) -> Json:
    try:
        found: Json = json.loads(text)
    except ValueError:
        return text
    return found
