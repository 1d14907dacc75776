"""What the fields of a configuration take, and how two are merged, as in icechunk."""

from dataclasses import fields
from pathlib import Path
from typing import Any

import icechunk
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import frazil
from frazil.format.config import RepoUpdateRetryConfig
from tests.compat.driver import OURS, REFERENCE, Engine

CLASSES = [
    *("RepositoryConfig", "CompressionConfig", "CachingConfig", "ManifestPreloadConfig"),
    *("ManifestVirtualChunkLocationCompressionConfig", "ManifestConfig", "S3Options"),
    *("StorageConcurrencySettings", "StorageRetriesSettings", "StorageTimeoutSettings"),
    "StorageSettings",
]
FIELDS = [
    (name, each.name) for name in CLASSES for each in fields(getattr(frazil, name)) if each.init
]
POWERS = (8, 16, 31, 32, 63, 64)
EDGES = [*(2**power + step for power in POWERS for step in (-1, 0)), -(2**31), -(2**31) - 1]
ODD = [-1, 0, 1, True, False, 1.5, "x", b"x", [], {}, object(), None]


def taken(make: Any, *arguments: Any, **fields: Any) -> str:
    """How a call ends: the class of its error, or that it was accepted."""
    try:
        make(*arguments, **fields)
    except Exception as error:  # noqa: BLE001 -- whatever it is, the other must raise the same
        return type(error).__name__
    return "accepted"


@pytest.mark.parametrize(("name", "field"), FIELDS)
def test_a_field_takes_what_it_takes_in_the_reference(name: str, field: str) -> None:
    for value in [*EDGES, *ODD]:
        if isinstance(value, dict) and field == "virtual_chunk_containers":
            continue
        ours = taken(getattr(frazil, name), **{field: value})
        assert ours == taken(getattr(icechunk, name), **{field: value}), value


@pytest.mark.parametrize("name", ["RepositoryConfig", "CachingConfig", "StorageRetriesSettings"])
def test_a_field_is_checked_when_it_is_set(name: str) -> None:
    for field in (each.name for each in fields(getattr(frazil, name)) if each.init):
        if field == "virtual_chunk_containers":  # has a method of its own there
            continue
        ours, theirs = getattr(frazil, name)(), getattr(icechunk, name)()
        for value in [*EDGES, *ODD]:
            if isinstance(value, dict):
                continue
            assert taken(setattr, ours, field, value) == taken(setattr, theirs, field, value), value
            assert getattr(ours, field) == getattr(theirs, field)


@pytest.mark.parametrize("value", [*EDGES, -1, 0, 1.5, "x"])
def test_numbers_in_conditions_have_the_limits_of_the_reference(value: Any) -> None:
    def split(module: Any) -> None:
        module.ManifestSplittingConfig.from_dict(
            {
                module.ManifestSplitCondition.AnyArray(): {
                    module.ManifestSplitDimCondition.Any(): value
                }
            }
        )

    def axis(module: Any) -> None:
        module.ManifestSplitDimCondition.Axis(value)

    def num_refs(module: Any) -> None:
        module.ManifestPreloadCondition.num_refs(None, value)

    for make in (split, axis, num_refs):
        assert taken(make, frazil) == taken(make, icechunk)


# --- merging -----------------------------------------------------------------------------------

SMALL = st.none() | st.integers(1, 5)


@st.composite
def configurations(draw: st.DrawFn) -> dict[str, Any]:
    """Some fields of every part, as plain values; None leaves out a whole part."""

    def part(*names: str) -> dict[str, int] | None:
        if draw(st.booleans()):
            return None
        return {name: value for name in names if (value := draw(SMALL)) is not None}

    return {
        "inline_chunk_threshold_bytes": draw(SMALL),
        "max_concurrent_requests": draw(SMALL),
        "num_updates_per_repo_info_file": draw(SMALL),
        "compression": part("level"),
        "caching": part("num_snapshot_nodes", "num_chunk_refs", "num_bytes_chunks"),
        "retries": part("max_tries", "initial_backoff_ms"),
        "preload": part("max_total_refs", "max_arrays_to_scan"),
        "locations": part("min_num_chunks", "compression_level"),
        "fetches": draw(SMALL),
        "split": draw(SMALL),
    }


def build(module: Any, parts: dict[str, Any]) -> Any:
    def made(cls: str, name: str) -> Any:
        return None if parts[name] is None else getattr(module, cls)(**parts[name])

    any_array, any_axis = (
        module.ManifestSplitCondition.AnyArray(),
        module.ManifestSplitDimCondition.Any(),
    )
    splitting = None
    if parts["split"] is not None:
        splitting = module.ManifestSplittingConfig.from_dict(
            {any_array: {any_axis: parts["split"]}}
        )
    locations = made("ManifestVirtualChunkLocationCompressionConfig", "locations")
    retries = made("StorageRetriesSettings", "retries")
    update_retries = (
        RepoUpdateRetryConfig if module is frazil else module._icechunk_python.RepoUpdateRetryConfig
    )
    return module.RepositoryConfig(
        **{name: parts[name] for name in list(parts)[:3]},
        compression=made("CompressionConfig", "compression"),
        caching=made("CachingConfig", "caching"),
        storage=None if retries is None else module.StorageSettings(retries=retries),
        manifest=module.ManifestConfig(
            preload=made("ManifestPreloadConfig", "preload"),
            splitting=splitting,
            virtual_chunk_location_compression=locations,
            max_concurrent_manifest_fetches_during_commit=parts["fetches"],
        ),
        repo_update_retries=None if retries is None else update_retries(default=retries),
    )


def plain(config: Any) -> Any:
    """The fields of either kind of configuration, as dicts."""
    match config:
        case None | int() | str():
            return config
    names = (
        "inline_chunk_threshold_bytes", "max_concurrent_requests",
        "num_updates_per_repo_info_file", "compression", "caching", "storage", "manifest",
        "repo_update_retries", "level", "num_snapshot_nodes", "num_chunk_refs",
        "num_bytes_chunks", "retries", "max_tries", "initial_backoff_ms", "preload",
        "max_total_refs", "max_arrays_to_scan", "virtual_chunk_location_compression",
        "min_num_chunks", "compression_level", "splitting",
        "max_concurrent_manifest_fetches_during_commit", "default",
    )  # fmt: skip
    if hasattr(config, "to_dict"):
        return [list(sizes.values()) for sizes in config.to_dict().values()]
    found = {name: getattr(config, name) for name in names if hasattr(config, name)}
    return {name: plain(value) for name, value in found.items() if not callable(value)}


@settings(deadline=None)
@given(old=configurations(), new=configurations())
def test_configurations_are_merged_as_in_the_reference(
    old: dict[str, Any], new: dict[str, Any]
) -> None:
    ours, theirs = (build(module, old).merge(build(module, new)) for module in (frazil, icechunk))
    assert plain(ours) == plain(theirs)


@pytest.mark.parametrize("creator", [OURS, REFERENCE], ids=lambda engine: engine.name)
def test_what_is_given_goes_over_what_is_stored(creator: Engine, tmp_path: Path) -> None:
    module = creator.module
    creator.create(
        tmp_path,
        config=creator.config(
            inline_chunk_threshold_bytes=1, caching=module.CachingConfig(num_chunk_refs=2)
        ),
    )
    for engine in (OURS, REFERENCE):
        given = engine.config(
            max_concurrent_requests=3, caching=engine.module.CachingConfig(num_snapshot_nodes=4)
        )
        found = engine.module.Repository.open(engine.storage(tmp_path), given).config
        assert found.inline_chunk_threshold_bytes == 1
        assert found.max_concurrent_requests == 3
        assert (found.caching.num_chunk_refs, found.caching.num_snapshot_nodes) == (2, 4)
