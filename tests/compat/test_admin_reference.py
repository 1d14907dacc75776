"""Administration by both implementations: same answers, same refusals, same stored state."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import cycle
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.compat.driver import INITIAL_SNAPSHOT, OURS, REFERENCE, Engine
from tests.examples_count import scaled

SET_AT = datetime(2024, 5, 6, 7, 8, 9, 123456, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Step:
    name: str
    do: Callable[[Engine, Any], object]

    def __repr__(self) -> str:
        return self.name


def status(availability: str, reason: str | None) -> Callable[[Engine, Any], object]:
    def do(engine: Engine, repo: Any) -> None:
        module = engine.module
        wanted = getattr(module.RepoAvailability, availability)
        repo.set_status(module.RepoStatus(wanted, SET_AT, reason))

    return do


def flag(name: str, value: bool | None) -> Callable[[Engine, Any], object]:  # noqa: FBT001 -- three values
    return lambda _, repo: repo.set_feature_flag(name, value)


def write(engine: Engine, repo: Any) -> bool:
    del engine
    return bool(repo.writable_session("main").commit("empty", allow_empty=True))


def commit_late(engine: Engine, repo: Any) -> bool:
    """A session that was made before the repository became read-only."""
    session = repo.writable_session("main")
    status("read_only", "late")(engine, repo)
    try:
        return bool(session.commit("empty", allow_empty=True))
    finally:
        status("online", None)(engine, repo)


STEPS = [
    Step("set metadata", lambda _, repo: repo.set_metadata({"a": 1, "n": {"x": 1}})),
    Step("clear metadata", lambda _, repo: repo.set_metadata({})),
    Step("update metadata", lambda _, repo: repo.update_metadata({"n": {"y": [1, None, 2.5]}})),
    Step("update metadata with nothing", lambda _, repo: repo.update_metadata({})),
    Step("odd metadata", lambda _, repo: repo.set_metadata({1: 2})),
    Step("odd update", lambda _, repo: repo.update_metadata({"a": object()})),
    *(
        Step(f"{name} = {value}", flag(name, value))
        for name in ("create_tag", "delete_tag", "move_node", "nonsense")
        for value in (True, False, None)
    ),
    Step("odd flag", lambda _, repo: repo.set_feature_flag("create_tag", 1)),
    Step("go read-only", status("read_only", "maintenance")),
    Step("go read-only again", status("read_only", None)),
    Step("go online", status("online", None)),
    Step("go online again", status("online", "why not")),
    Step("odd status", lambda _, repo: repo.set_status("online")),
    Step("tag", lambda _, repo: repo.create_tag("t", INITIAL_SNAPSHOT)),
    Step("another tag", lambda _, repo: repo.create_tag("u", INITIAL_SNAPSHOT)),
    Step("untag", lambda _, repo: repo.delete_tag("t")),
    Step("branch", lambda _, repo: repo.create_branch("b", INITIAL_SNAPSHOT)),
    Step("reset", lambda _, repo: repo.reset_branch("b", INITIAL_SNAPSHOT)),
    Step("unbranch", lambda _, repo: repo.delete_branch("b")),
    Step("delete main", lambda _, repo: repo.delete_branch("main")),
    Step("save config", lambda _, repo: repo.save_config()),
    Step("commit", write),
    Step("commit late", commit_late),
    Step("read", lambda _, repo: bool(repo.readonly_session("main").snapshot_id)),
]


def outcome(step: Step, engine: Engine, repo: Any) -> object:
    try:
        return step.do(engine, repo)
    except Exception as error:  # noqa: BLE001 -- whatever it is, the other must raise the same
        return type(error).__name__, getattr(error, "kind", None)


def state(repo: Any) -> dict[str, object]:
    """All that administration can change, as this implementation sees it."""
    return {
        "metadata": repo.get_metadata(),
        "status": (
            int(repo.status.availability),
            repo.status.limited_availability_reason,
            repo.status.set_at if repo.status.set_at == SET_AT else None,
        ),
        "flags": [
            (flag.id, flag.name, flag.default_enabled, flag.setting, flag.enabled)
            for flag in sorted(repo.feature_flags(), key=lambda flag: flag.id)
        ],
        "enabled": {flag.name for flag in repo.enabled_feature_flags()},
        "disabled": {flag.name for flag in repo.disabled_feature_flags()},
        "refs": (repo.list_tags(), repo.list_branches()),
        "log": [logged(update.kind) for update in repo.ops_log()],
    }


def logged(kind: Any) -> tuple[object, ...]:
    match type(kind).__name__:
        case "FeatureFlagChanged":
            return "FeatureFlagChanged", kind.id, kind.new_value
        case "RepoStatusChanged":
            return (
                "RepoStatusChanged",
                int(kind.status.availability),
                kind.status.set_at,
                kind.status.limited_availability_reason,
            )
        case name:
            return (name,)


@settings(max_examples=scaled(25), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(steps=st.lists(st.sampled_from(STEPS), max_size=15))
def test_both_answer_the_same_and_store_the_same(
    steps: list[Step], tmp_path_factory: pytest.TempPathFactory
) -> None:
    root = tmp_path_factory.mktemp("admin")
    ours, reference = OURS.create(root / "ours"), REFERENCE.create(root / "reference")
    for step in steps:
        assert outcome(step, OURS, ours) == outcome(step, REFERENCE, reference), step
    expected = state(reference)
    assert state(ours) == expected
    assert state(REFERENCE.open(root / "ours")) == expected
    assert state(OURS.open(root / "reference")) == expected


@pytest.mark.parametrize("first", [OURS, REFERENCE], ids=lambda engine: engine.name)
def test_taking_turns_on_one_repository(first: Engine, tmp_path: Path) -> None:
    second = REFERENCE if first is OURS else OURS
    shared, alone = tmp_path / "shared", tmp_path / "alone"
    first.create(shared)
    expected = REFERENCE.create(alone)
    for step, engine in zip(STEPS, cycle([first, second]), strict=False):
        answer = outcome(step, engine, engine.open(shared))
        assert answer == outcome(step, REFERENCE, expected), (step, engine.name)
        assert state(OURS.open(shared)) == state(REFERENCE.open(shared)) == state(expected)


@pytest.mark.parametrize("flag", ["create_tag", "delete_tag"])
@pytest.mark.parametrize("setter", [OURS, REFERENCE], ids=lambda engine: engine.name)
def test_a_flag_set_by_one_binds_the_other(setter: Engine, flag: str, tmp_path: Path) -> None:
    setter.create(tmp_path).create_tag("t", INITIAL_SNAPSHOT)
    setter.open(tmp_path).set_feature_flag(flag, False)
    for engine in (OURS, REFERENCE):
        repo = engine.open(tmp_path)
        operation = repo.create_tag if flag == "create_tag" else repo.delete_tag
        arguments = ("u", INITIAL_SNAPSHOT) if flag == "create_tag" else ("t",)
        with pytest.raises(engine.module.SessionStateError) as caught:
            operation(*arguments)
        assert caught.value.kind == "feature-flag-disabled"


@pytest.mark.parametrize("writer", [OURS, REFERENCE], ids=lambda engine: engine.name)
def test_default_commit_metadata_goes_under_that_of_the_commit(
    writer: Engine, tmp_path: Path
) -> None:
    repo = writer.create(tmp_path)
    early = repo.writable_session("main")
    repo.set_default_commit_metadata({"who": "me", "x": 1})
    assert repo.default_commit_metadata() == {"who": "me", "x": 1}
    early.commit("early", allow_empty=True)
    repo.writable_session("main").commit("late", {"x": 2}, allow_empty=True)
    found = [
        [snapshot.metadata for snapshot in engine.open(tmp_path).ancestry(branch="main")][:2]
        for engine in (OURS, REFERENCE)
    ]
    assert found == [[{"who": "me", "x": 2}, {}]] * 2


@pytest.mark.parametrize("engine", [OURS, REFERENCE], ids=lambda engine: engine.name)
def test_reopening_merges_the_configuration(engine: Engine, tmp_path: Path) -> None:
    caching = engine.module.CachingConfig(num_chunk_refs=7)
    repo = engine.create(tmp_path, config=engine.config(caching=caching))
    again = repo.reopen(
        engine.config(
            inline_chunk_threshold_bytes=3, caching=engine.module.CachingConfig(num_bytes_chunks=8)
        )
    )
    assert again.config.inline_chunk_threshold_bytes == 3
    assert again.config.caching.num_chunk_refs == 7
    assert again.config.caching.num_bytes_chunks == 8
    assert repo.config.inline_chunk_threshold_bytes is None
