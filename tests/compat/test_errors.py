"""Bad calls: both engines refuse them with an error of the same name and the same kind."""

import builtins
import pickle
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import zarr
from zarr.core.buffer import default_buffer_prototype
from zarr.core.sync import sync

from tests.compat.driver import INITIAL_SNAPSHOT, OURS, REFERENCE, Engine

UNKNOWN_SNAPSHOT = "AAAAAAAAAAAAAAAAAAA0"
GROUP = b'{"zarr_format": 3, "node_type": "group", "attributes": {}}'
type Call = Callable[[Engine, Path, Any], object]


def prepared(engine: Engine, root: Path) -> Any:
    """A repository with an array `/a`, a branch `dev`, a tag `v1` and a tag that was deleted."""
    repo = engine.create(root)
    session = repo.writable_session("main")
    zarr.create_array(session.store, name="a", shape=(4,), chunks=(2,), dtype="i4")[...] = 7
    snapshot = session.commit("first")
    repo.create_branch("dev", snapshot)
    for tag in ("v1", "gone"):
        repo.create_tag(tag, snapshot)
    repo.delete_tag("gone")
    return repo


def put(session: Any, key: str, value: bytes) -> None:
    sync(session.store.set(key, default_buffer_prototype().buffer.from_bytes(value)))


def edited(repo: Any) -> Any:
    session = repo.writable_session("main")
    zarr.open_array(session.store, path="a")[0] = 1
    return session


def commit_twice(engine: Engine, root: Path, repo: Any) -> None:
    del engine, root
    session = edited(repo)
    session.commit("one")
    session.commit("two")


def commit_on_moved_branch(engine: Engine, root: Path, repo: Any) -> None:
    del engine, root
    late = edited(repo)
    edited(repo).commit("early")
    late.commit("late")


def commit_on_deleted_branch(engine: Engine, root: Path, repo: Any) -> None:
    del engine, root
    session = repo.writable_session("dev")
    zarr.open_array(session.store, path="a")[0] = 1
    repo.delete_branch("dev")
    session.commit("nowhere")


def reset_from_elsewhere(engine: Engine, root: Path, repo: Any) -> None:
    del engine, root
    repo.reset_branch("main", INITIAL_SNAPSHOT, from_snapshot_id=INITIAL_SNAPSHOT)


def create_beside_other_files(engine: Engine, root: Path, repo: Any) -> None:
    del repo
    other = root.with_name(f"{root.name}-occupied")
    other.mkdir()
    (other / "notes.txt").write_text("mine")
    engine.create(other)


def write_read_only(engine: Engine, root: Path, repo: Any) -> None:
    del engine, root
    put(repo.readonly_session("main"), "a/c/0", b"12345678")


def delete_read_only(engine: Engine, root: Path, repo: Any) -> None:
    del engine, root
    sync(repo.readonly_session("main").store.delete("a/c/0"))


def in_session(action: Callable[[Any], object]) -> Call:
    return lambda _engine, _root, repo: action(repo.writable_session("main"))


def on_repo(action: Callable[[Any], object]) -> Call:
    return lambda _engine, _root, repo: action(repo)


LONG_AGO = datetime(2001, 1, 1, tzinfo=UTC)
BAD_CALLS: dict[str, Call] = {
    # opening and creating
    "open a missing repository": lambda engine, root, _: engine.open(root.with_name("missing")),
    "create over a repository": lambda engine, root, _: engine.create(root),
    "create beside other files": create_beside_other_files,
    # sessions
    "session on a missing branch": on_repo(lambda repo: repo.readonly_session("nope")),
    "session on a missing tag": on_repo(lambda repo: repo.readonly_session(tag="nope")),
    "session on a deleted tag": on_repo(lambda repo: repo.readonly_session(tag="gone")),
    "session on a missing snapshot": on_repo(
        lambda repo: repo.readonly_session(snapshot_id=UNKNOWN_SNAPSHOT)
    ),
    "session on a bad id": on_repo(lambda repo: repo.readonly_session(snapshot_id="not an id")),
    "session on a short id": on_repo(lambda repo: repo.readonly_session(snapshot_id="1CECHNK")),
    "session on nothing": on_repo(lambda repo: repo.readonly_session()),
    "session on two refs": on_repo(lambda repo: repo.readonly_session("main", tag="v1")),
    "session as of a tag": on_repo(lambda repo: repo.readonly_session(tag="v1", as_of=LONG_AGO)),
    "session before the beginning": on_repo(
        lambda repo: repo.readonly_session("main", as_of=LONG_AGO)
    ),
    "session as of a missing branch": on_repo(
        lambda repo: repo.readonly_session("nope", as_of=LONG_AGO)
    ),
    "writable session on a missing branch": on_repo(lambda repo: repo.writable_session("nope")),
    "pickle a writable session": in_session(pickle.dumps),
    # refs
    "delete main": on_repo(lambda repo: repo.delete_branch("main")),
    "delete a missing branch": on_repo(lambda repo: repo.delete_branch("nope")),
    "delete a missing tag": on_repo(lambda repo: repo.delete_tag("nope")),
    "delete a tag twice": on_repo(lambda repo: repo.delete_tag("gone")),
    "look up a missing branch": on_repo(lambda repo: repo.lookup_branch("nope")),
    "look up a missing tag": on_repo(lambda repo: repo.lookup_tag("nope")),
    "look up a missing snapshot": on_repo(lambda repo: repo.lookup_snapshot(UNKNOWN_SNAPSHOT)),
    "look up a bad id": on_repo(lambda repo: repo.lookup_snapshot("***")),
    "create a branch twice": on_repo(lambda repo: repo.create_branch("dev", INITIAL_SNAPSHOT)),
    "create a tag twice": on_repo(lambda repo: repo.create_tag("v1", INITIAL_SNAPSHOT)),
    "reuse a deleted tag": on_repo(lambda repo: repo.create_tag("gone", INITIAL_SNAPSHOT)),
    "branch at a missing snapshot": on_repo(lambda repo: repo.create_branch("x", UNKNOWN_SNAPSHOT)),
    "branch at a bad id": on_repo(lambda repo: repo.create_branch("x", "bad")),
    "tag a missing snapshot": on_repo(lambda repo: repo.create_tag("x", UNKNOWN_SNAPSHOT)),
    "tag a bad id": on_repo(lambda repo: repo.create_tag("x", "bad")),
    "reset a missing branch": on_repo(lambda repo: repo.reset_branch("nope", INITIAL_SNAPSHOT)),
    "reset to a missing snapshot": on_repo(lambda repo: repo.reset_branch("dev", UNKNOWN_SNAPSHOT)),
    "reset from elsewhere": reset_from_elsewhere,
    "ancestry of a missing branch": on_repo(lambda repo: list(repo.ancestry(branch="nope"))),
    "ancestry of a missing tag": on_repo(lambda repo: list(repo.ancestry(tag="nope"))),
    "ancestry of nothing": on_repo(lambda repo: list(repo.ancestry())),
    "diff of one snapshot": on_repo(lambda repo: repo.diff(from_branch="main", to_branch="main")),
    "diff backwards": on_repo(
        lambda repo: repo.diff(from_branch="main", to_snapshot_id=INITIAL_SNAPSHOT)
    ),
    "diff of a missing branch": on_repo(
        lambda repo: repo.diff(from_snapshot_id=INITIAL_SNAPSHOT, to_branch="nope")
    ),
    # committing
    "commit nothing": in_session(lambda session: session.commit("nothing")),
    "commit twice": commit_twice,
    "commit on a moved branch": commit_on_moved_branch,
    "commit on a deleted branch": commit_on_deleted_branch,
    "commit read-only": on_repo(lambda repo: repo.readonly_session("main").commit("no")),
    "commit metadata that is not JSON": in_session(
        lambda session: session.commit("x", metadata={"at": LONG_AGO}, allow_empty=True)
    ),
    # writing
    "write read-only": write_read_only,
    "delete read-only": delete_read_only,
    "discard read-only": on_repo(lambda repo: repo.readonly_session("main").discard_changes()),
    "write outside the grid": in_session(lambda session: put(session, "a/c/9", b"12345678")),
    "write an empty chunk": in_session(lambda session: put(session, "a/c/0", b"")),
    "write a chunk of a missing array": in_session(lambda session: put(session, "b/c/0", b"x")),
    "write a chunk of a group": in_session(lambda session: put(session, "c/0", b"x")),
    "write a foreign key": in_session(lambda session: put(session, "foo", b"x")),
    "write a zarr 2 key": in_session(lambda session: put(session, "b/.zarray", b"{}")),
    "write metadata without a type": in_session(
        lambda session: put(session, "b/zarr.json", b'{"zarr_format": 3}')
    ),
    "write metadata that is not JSON": in_session(
        lambda session: put(session, "b/zarr.json", b"nonsense")
    ),
    "write an array without a shape": in_session(
        lambda session: put(session, "b/zarr.json", b'{"node_type": "array"}')
    ),
    "replace an array by a group": in_session(lambda session: put(session, "a/zarr.json", GROUP)),
    "replace a group by an array": in_session(
        lambda session: put(
            session,
            "zarr.json",
            b'{"node_type": "array", "shape": [1], '
            b'"chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [1]}}}',
        )
    ),
    "chunk type of a missing array": in_session(lambda session: session.chunk_type("/no", [0])),
    "chunk type at a relative path": in_session(lambda session: session.chunk_type("a", [0])),
    "node id of a missing node": in_session(lambda session: session.get_node_id("/no")),
}

# Where frazil says something else on purpose: what it says, and why.
ON_PURPOSE: dict[str, tuple[str, str]] = {
    # the reference says read-only-store for `set` and `delete_dir`, read-only-session for `delete`
    "delete read-only": ("ReadOnlyError", "read-only-store"),
    # not a matter of the session's state: no call will ever accept this key
    "write a zarr 2 key": ("InvalidInputError", "invalid-key"),
}


# What a message may name: a user who reads it must learn from ours what the reference's tells.
NAMES = (
    *("nope", "gone", "dev", "main", "v1", "/a", "/b", "/no", "foo", "b/.zarray"),
    *("node_type", "shape", "[9]", "bad", "1CECHNK", "***", "not an id"),
    *(UNKNOWN_SNAPSHOT, INITIAL_SNAPSHOT),
)


@dataclass(frozen=True)
class Refusal:
    error: tuple[str, str | None]  # name and kind
    named: frozenset[str]


def refusal(engine: Engine, root: Path, call: Call) -> Refusal:
    repo = prepared(engine, root)
    try:
        result = call(engine, root, repo)
    except Exception as error:  # noqa: BLE001 - whatever is raised is what is compared
        message = str(error).partition("\n")[0]  # in the reference the trace of its code follows
        named = frozenset(name for name in NAMES if name in message)
        return Refusal((known_name(error), getattr(error, "kind", None)), named)
    pytest.fail(f"{engine.name} accepted the call and answered {result!r}")


# Where the reference shows the whole node, or the class of a conflict, and so more names than help.
UNSAID: dict[str, frozenset[str]] = {
    "write a chunk of a group": frozenset({"node_type"}),
    "replace an array by a group": frozenset({"node_type", "shape"}),
    "replace a group by an array": frozenset({"node_type"}),
    "write an empty chunk": frozenset({"/a", "shape"}),
}


def known_name(error: Exception) -> str:
    """The nearest class that a handler written for the reference can name."""
    names = [cls.__name__ for cls in type(error).__mro__]
    known = (REFERENCE.module, builtins)
    return next(name for name in names if any(hasattr(module, name) for module in known))


@pytest.mark.parametrize("name", BAD_CALLS)
def test_bad_calls_are_refused_alike(name: str, tmp_path: Path) -> None:
    call = BAD_CALLS[name]
    ours = refusal(OURS, tmp_path / "ours", call)
    reference = refusal(REFERENCE, tmp_path / "reference", call)
    assert ours.error == ON_PURPOSE.get(name, reference.error)
    assert ours.error != reference.error or name not in ON_PURPOSE
    assert ours.named >= reference.named - UNSAID.get(name, frozenset())


def test_a_conflict_names_both_parents(tmp_path: Path) -> None:
    repo = prepared(OURS, tmp_path)
    late = edited(repo)
    expected = late.snapshot_id
    actual = edited(repo).commit("early")
    with pytest.raises(OURS.module.ConflictError) as caught:
        late.commit("late")
    assert (caught.value.expected_parent, caught.value.actual_parent) == (expected, actual)


def test_every_error_class_of_the_reference_is_ours_too() -> None:
    """Same names, same place in the tree, the same builtin parents."""

    def ancestors(engine: Engine, name: str) -> set[str]:
        return {cls.__name__ for cls in getattr(engine.module, name).__mro__}

    names = [
        name
        for name in REFERENCE.module.__all__
        if isinstance(cls := getattr(REFERENCE.module, name), type) and issubclass(cls, Exception)
    ]
    assert len(names) > 10
    assert {name: ancestors(REFERENCE, name) for name in names} == {
        name: ancestors(OURS, name) for name in names
    }


ALIKE = [
    "IcechunkError",
    "NotFoundError",
    "NodeNotFoundError",
    "SnapshotNotFoundError",
    "RefNotFoundError",
    "RepositoryNotFoundError",
    "AlreadyExistsError",
    "ReadOnlyError",
    "InvalidInputError",
    "SessionStateError",
    "StorageError",
    "FormatError",
    "InternalError",
]
CONFLICTS: list[tuple[object, ...]] = [
    (),
    ("a",),
    ("a", "b"),
    (None, "b"),
    ("a", "b", "text"),
    ("a", "b", "text", "branch-update-conflict"),
]


def attributes(error: Any) -> dict[str, object]:
    names = ("kind", "message", "expected_parent", "actual_parent", "snapshot", "conflicts")
    found = {name: getattr(error, name) for name in names if hasattr(error, name)}
    return found | {"conflicts": repr(found.get("conflicts"))}  # the reference's do not compare


@pytest.mark.parametrize("name", ALIKE)
@pytest.mark.parametrize("args", [("text",), ("text", "io"), ("text", None)])
def test_errors_are_made_from_the_same_arguments(name: str, args: tuple[object, ...]) -> None:
    ours, theirs = (getattr(engine.module, name)(*args) for engine in (OURS, REFERENCE))
    if args == ("text", "io"):
        assert ours.kind == theirs.kind == "io"
    else:  # docs/differences.md: errors that a caller makes without a kind
        assert (ours.kind, theirs.kind) == (ours.default_kind, "unknown")
        theirs = type(theirs)("text", ours.kind)
    assert attributes(ours) == attributes(theirs)
    assert str(ours) == str(theirs)
    assert attributes(type(ours)(*ours.args)) == attributes(ours)
    assert repr(ours).partition(".")[2] == repr(theirs).partition(".")[2]


@pytest.mark.parametrize("args", CONFLICTS)
def test_conflicts_are_made_from_the_same_arguments(args: tuple[object, ...]) -> None:
    ours, theirs = (engine.module.ConflictError(*args) for engine in (OURS, REFERENCE))
    made = {"message"} if len(args) < 3 else set()  # its parents are written in another way
    assert {k: v for k, v in attributes(ours).items() if k not in made} == {
        k: v for k, v in attributes(theirs).items() if k not in made
    }
    assert attributes(type(ours)(*ours.args)) == attributes(ours)
    assert ours.message.startswith("Failed to commit, expected parent: ") or not made
    assert repr(ours).partition(".")[2] == repr(theirs).partition(".")[2]


def test_raised_errors_can_be_made_again_from_their_arguments(tmp_path: Path) -> None:
    """Tools that carry exceptions as `cls(*args)` keep all that an error says."""
    for engine in (OURS, REFERENCE):
        repo = prepared(engine, tmp_path / engine.name)
        late, other = edited(repo), edited(repo)
        edited(repo).commit("early")
        calls: list[Callable[[], object]] = [
            lambda late=late: late.commit("late"),  # type: ignore[misc]  # bound at once
            lambda other=other, engine=engine: other.rebase(engine.module.ConflictDetector()),  # type: ignore[misc]  # same
            lambda repo=repo: repo.lookup_tag("nope"),  # type: ignore[misc]  # same
            lambda repo=repo: repo.readonly_session(snapshot_id="bad"),  # type: ignore[misc]  # same
        ]
        for call in calls:
            with pytest.raises(engine.module.IcechunkError) as caught:
                call()
            again = type(caught.value)(*caught.value.args)
            assert attributes(again) == attributes(caught.value)
            assert type(pickle.loads(pickle.dumps(caught.value))) is type(again)


def test_a_repository_that_is_not_there_says_in_a_note_where_it_was_looked_for(
    tmp_path: Path,
) -> None:
    for engine in (OURS, REFERENCE):
        with pytest.raises(engine.module.RepositoryNotFoundError) as caught:
            engine.open(tmp_path / "missing")
        assert caught.value.__notes__
        if engine is OURS:
            assert str(tmp_path / "missing") in "".join(caught.value.__notes__)
            copy = pickle.loads(pickle.dumps(caught.value))
            assert copy.__notes__ == caught.value.__notes__
