"""Generated histories: whoever writes, both engines show the same, and what the model says."""

import itertools
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given, settings

from tests.compat.driver import (
    OURS,
    REFERENCE,
    Engine,
    Model,
    Plain,
    Player,
    array_values,
    assert_same,
    contents,
    create_for,
    diff_between,
    history_of,
    listing,
)
from tests.compat.histories import histories
from tests.compat.steps import Abandon, Commit, History, Step
from tests.examples_count import scaled

pytestmark = pytest.mark.filterwarnings("ignore::zarr.errors.UnstableSpecificationWarning")

few_examples = settings(max_examples=scaled(20))


def assert_model_is_shown(history: Plain, model: Model, ids: list[str]) -> None:
    """Refs and ancestry are those of the model, so the two engines cannot be wrong alike."""
    assert history["branches"] == {name: ids[at] for name, at in sorted(model.branches.items())}
    assert history["tags"] == {name: ids[at] for name, at in sorted(model.tags.items())}
    ancestry = history["branch ancestry"]
    assert isinstance(ancestry, dict)
    for name, position in model.branches.items():
        expected = [
            (ids[at], model.messages[at], model.metadata[at]) for at in model.ancestry(position)
        ]
        found = [(info["id"], info["message"], info["metadata"]) for info in ancestry[name]]
        assert found == expected


def assert_seen_alike(root: Path, model: Model, ids: list[str], step: Step) -> None:
    """Both engines, opened anew, show the same repository after `step`."""
    ours, reference = OURS.open(root), REFERENCE.open(root)
    history = history_of(ours)
    assert_same(history, history_of(reference), "history")
    assert_model_is_shown(history, model, ids)
    if isinstance(step, Commit):
        parent = model.parents[-1]
        assert parent is not None
        newer, older = ids[-1], ids[parent]
        assert_same(diff_between(ours, older, newer), diff_between(reference, older, newer), "diff")
        assert_snapshot_seen_alike(ours, reference, newer, model.snapshots[-1])


def assert_snapshot_seen_alike(ours: Any, reference: Any, snapshot: str, expected: object) -> None:
    our_store = ours.readonly_session(snapshot_id=snapshot).store
    their_store = reference.readonly_session(snapshot_id=snapshot).store
    our_contents = contents(our_store)
    assert_same(our_contents, contents(their_store), "contents")
    assert our_contents == expected
    assert_same(listing(our_store), listing(their_store), "listing")
    assert_same(array_values(our_store), array_values(their_store), "values")


def replay(history: History, writers: list[Engine]) -> None:
    """Replays a history with the writers taking turns, comparing after every step."""
    with TemporaryDirectory() as directory:
        root = Path(directory, "repo")
        turns = itertools.cycle(writers)
        create_for(next(turns), root, history)
        model, player = Model(), Player(root)
        for step in history.steps:
            model.play(step)
            status = player.play(next(turns), step)
            assert_seen_alike(root, model, player.ids, step)
            if isinstance(step, Commit):
                parent = model.parents[-1]
                assert parent is not None
                written = diff_between(REFERENCE.open(root), player.ids[parent], player.ids[-1])
                assert_same(status, written, "status before, diff after the commit")
        assert_every_ref_opens(root, model)
        assert_long_diffs_are_alike(root, model, player.ids)


def assert_long_diffs_are_alike(root: Path, model: Model, ids: list[str]) -> None:
    """From the beginning to each branch, over all the commits between."""
    ours, reference = OURS.open(root), REFERENCE.open(root)
    for position in set(model.branches.values()) - {0}:
        long = [diff_between(repo, ids[0], ids[position]) for repo in (ours, reference)]
        assert_same(long[0], long[1], "diff over many commits")


def assert_every_ref_opens(root: Path, model: Model) -> None:
    for engine in (OURS, REFERENCE):
        repo = engine.open(root)
        for name, position in model.branches.items():
            store = repo.readonly_session(branch=name).store
            assert contents(store) == model.snapshots[position]
        for name, position in model.tags.items():
            assert contents(repo.readonly_session(tag=name).store) == model.snapshots[position]


@few_examples
@given(histories())
def test_icechunk_reads_what_frazil_writes(history: History) -> None:
    replay(history, [OURS])


@few_examples
@given(histories())
def test_frazil_reads_what_icechunk_writes(history: History) -> None:
    replay(history, [REFERENCE])


@few_examples
@given(histories(max_steps=10))
def test_both_alternate_on_one_repository(history: History) -> None:
    replay(history, [OURS, REFERENCE])


@few_examples
@given(histories())
def test_the_same_history_leaves_the_same_repository(history: History) -> None:
    """Each engine writes its own repository: what they record about the edits is equal."""
    with TemporaryDirectory() as directory:
        players = [(engine, Player(Path(directory, engine.name))) for engine in (OURS, REFERENCE)]
        for engine, player in players:
            create_for(engine, player.root, history)
        for step in history.steps:
            ours, reference = (player.play(engine, step) for engine, player in players)
            if isinstance(step, Commit | Abandon):
                assert_same(ours, reference, "status")
            ours, reference = (
                without_identity(history_of(engine.open(player.root)), player.ids)
                for engine, player in players
            )
            assert_same(ours, reference, "history")
            if isinstance(step, Commit):
                our_kinds, their_kinds = (
                    stored_chunks(engine.open(player.root), player.ids[-1])
                    for engine, player in players
                )
                assert_same(our_kinds, their_kinds, "chunk kinds")


def without_identity(value: object, ids: list[str]) -> Plain | Any:
    """The value with ids replaced by positions and times by their presence."""
    match value:
        case dict():
            return {
                key: inner is not None
                if key in {"written_at", "updated_at", "backup_path"}
                else without_identity(inner, ids)
                for key, inner in value.items()
            }
        case list():
            return [without_identity(inner, ids) for inner in value]
        case str() if value in ids:
            return ids.index(value)
        case _:
            return value


def stored_chunks(repo: Any, snapshot: str) -> dict[str, int]:
    """How each chunk is stored, a ChunkType: 1 native, 3 inline."""
    session = repo.readonly_session(snapshot_id=snapshot)
    found = {}
    for key in contents(session.store):
        path, chunk, index = f"/{key}".rpartition("/c")
        if chunk and not key.endswith("zarr.json"):
            coordinates = [int(part) for part in index.split("/") if part]
            found[key] = int(session.chunk_type(path, coordinates))
    return found
