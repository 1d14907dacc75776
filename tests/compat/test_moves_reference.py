"""Moving nodes and chunks by both implementations: same answers, same refusals, same repository.

Both write to a directory of their own, and each then reads what the other one wrote.
"""

import itertools
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zarr
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.compat.driver import (
    OURS,
    REFERENCE,
    Engine,
    apply_edit,
    contents,
    diff_between,
    plain_diff,
)
from tests.compat.excuses import excuse_for_rebase
from tests.compat.sides import Answer, details, diff_of, known_name
from tests.compat.test_rebase_reference import edits, in_memory
from tests.examples_count import scaled

ENGINES = (OURS, REFERENCE)
PLACES = ("/", "/a", "/b", "/g", "/g/x", "/g/h", "/g/h/y", "/k", "/k/x", "/a-b", "/g/é", "/zz/a")

type Moves = Sequence[tuple[str, str]]
type Act = Callable[[Engine, Any], object]


def begin(engine: Engine, root: Path) -> Any:
    """Arrays /a, /g/x and /g/h/y of four chunks; the third chunk of /a is missing."""
    repo = engine.create(root)
    session = repo.writable_session("main")
    group = zarr.create_group(session.store)
    for name in ("g", "g/h", "b"):
        group.create_group(name)
    for number, name in enumerate(("a", "g/x", "g/h/y")):
        array = group.create_array(name, shape=(4,), chunks=(1,), dtype="i4", fill_value=0)
        array[:] = np.arange(1, 5) + 10 * number
    zarr.open_array(session.store, path="a", mode="r+")[2] = 0
    session.commit("base")
    return repo


def attempt(engine: Engine, action: Callable[[], object]) -> object:
    """What it says, or the class and kind of its error."""
    try:
        return action()
    except engine.module.IcechunkError as error:
        return type(error).__name__, str(error.kind)


def ops(repo: Any) -> list[str]:
    return [type(update.kind).__name__ for update in repo.ops_log()]


def moved_by(engine: Engine, root: Path, moves: Moves) -> tuple[object, Any]:
    """Everything that can be seen of it."""
    repo = begin(engine, root)
    session = repo.rearrange_session("main")
    said = [attempt(engine, partial(session.move, *move)) for move in moves]
    status = plain_diff(session.status())
    pending, seen = session.has_uncommitted_changes, contents(session.store)
    start = session.snapshot_id
    done = attempt(engine, lambda: session.commit("moved") and str(session.mode))
    diff = (
        diff_between(repo, start, session.snapshot_id) if done == "SessionMode.readonly" else None
    )
    return (said, status, pending, seen, done, diff, ops(repo)), session.snapshot_id


def assert_each_reads_both(roots: dict[str, Path]) -> None:
    found = [
        contents(engine.open(root).readonly_session("main").store)
        for root in roots.values()
        for engine in ENGINES
    ]
    assert found[1:] == found[:1] * 3


def both_move(tmp: Path, moves: Moves) -> None:
    roots = {engine.name: tmp / engine.name for engine in ENGINES}
    answers = [moved_by(engine, roots[engine.name], moves)[0] for engine in ENGINES]
    assert answers[0] == answers[1]
    assert_each_reads_both(roots)
    logs = []
    for name, root in roots.items():
        for engine in ENGINES:  # each reads the log that the other one wrote
            repo = engine.open(root)
            tip = repo.lookup_branch("main")
            parent = repo.lookup_snapshot(tip).parent_id
            logs.append((name, diff_between(repo, parent, tip)))
    assert [log for _, log in logs] == [logs[0][1]] * 4


@pytest.mark.parametrize(
    "moves",
    [
        [("/g", "/k")],
        [("/a", "/g/a"), ("/g", "/b/g")],
        [("/g", "/k"), ("/a", "/g"), ("/k", "/a")],
        [("/g", "/k"), ("/k", "/g")],
        [("/g/x", "/x"), ("/g", "/k"), ("/x", "/k/z")],
        [("/a", "/b-a"), ("/g", "/b/g")],
        [("/nope", "/q"), ("/", "/q"), ("/g", "/g"), ("/g", "/g/h/k"), ("/g", "/"), ("/b", "/a")],
        [("/b", "/zz/b"), ("/b", "/a/b"), ("b", "/c"), ("/b", "c"), ("/b", "/c/.."), ("/b", "")],
    ],
)
def test_moves(tmp_path: Path, moves: Moves) -> None:
    both_move(tmp_path, moves)


@settings(
    max_examples=scaled(20),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(
    moves=st.lists(
        st.tuples(st.sampled_from(PLACES[1:]), st.sampled_from(PLACES)), min_size=1, max_size=8
    )
)
def test_any_moves(tmp_path_factory: pytest.TempPathFactory, moves: Moves) -> None:
    both_move(tmp_path_factory.mktemp("moves"), moves)


def state(repo: Any) -> object:
    return contents(repo.readonly_session("main").store), ops(repo)


def edit(engine: Engine, repo: Any, change: Callable[[Any], object]) -> None:
    del engine
    session = repo.writable_session("main")
    change(zarr.open_group(session.store, mode="r+"))
    session.commit("edit")


def amended(engine: Engine, repo: Any) -> object:
    edit(engine, repo, lambda group: group.create_group("n"))
    start = list(repo.ancestry(branch="main"))[1].id
    session = repo.rearrange_session("main")
    session.move("/n", "/m")
    session.move("/a", "/n")
    diff: Any = diff_between(repo, start, session.amend("both"))
    # That a node that is new was moved is told by the reference only: see docs/differences.md.
    new = {*diff["new_groups"], *diff["new_arrays"]}
    diff["moved_nodes"] = [move for move in diff["moved_nodes"] if move[1] not in new]
    return diff


def amended_twice(engine: Engine, repo: Any) -> object:
    start = repo.lookup_branch("main")
    first = repo.rearrange_session("main")
    first.move("/g", "/k")
    first.commit("moved")
    edited = repo.writable_session("main")
    zarr.open_group(edited.store, mode="r+").create_group("n")
    refused = attempt(engine, lambda: edited.amend("not with edits"))
    second = repo.rearrange_session("main")
    second.move("/k", "/b/k")
    return refused, diff_between(repo, start, second.amend("further"))


def amended_without_moves(engine: Engine, repo: Any) -> object:
    start = repo.lookup_branch("main")
    first = repo.rearrange_session("main")
    first.move("/g", "/k")
    first.commit("moved")
    edited = repo.writable_session("main")
    refused = attempt(engine, lambda: edited.amend("no", allow_empty=True))
    repo.rearrange_session("main").amend("another message", allow_empty=True)
    there_and_back = repo.rearrange_session("main")
    there_and_back.move("/k", "/l")
    there_and_back.move("/l", "/k")
    return refused, diff_between(repo, start, there_and_back.amend("again"))


def flushed(engine: Engine, repo: Any) -> object:
    del engine
    session = repo.rearrange_session("main")
    session.move("/a", "/c")
    return contents(repo.readonly_session(snapshot_id=session.flush("aside")).store)


def forbidden(engine: Engine, repo: Any) -> object:
    session = repo.rearrange_session("main")
    session.move("/a", "/c")
    repo.set_feature_flag("move_node", False)
    actions: list[Callable[[], object]] = [
        lambda: repo.rearrange_session("main"),
        lambda: session.commit("x"),
        lambda: session.amend("x"),
        lambda: session.flush("x"),
    ]
    said = [attempt(engine, action) for action in actions]
    repo.set_feature_flag("move_node", None)
    return said, bool(session.commit("allowed"))


def wrong_session(engine: Engine, repo: Any) -> object:
    rearranging, writing = repo.rearrange_session("main"), repo.writable_session("main")
    group = zarr.open_group(rearranging.store, mode="r+")
    fork = rearranging.fork()
    actions: list[Callable[[], object]] = [
        lambda: writing.move("/a", "/c"),
        lambda: writing.fork().move("/a", "/c"),
        lambda: repo.readonly_session("main").move("/a", "/c"),
        lambda: repo.readonly_session("main").shift_array("/a", (1,)),
        lambda: rearranging.shift_array("/a", (1,)),
        lambda: rearranging.reindex_array("/a", lambda place: place),
        lambda: rearranging.merge(fork),
        lambda: group.create_group("n"),
        lambda: group.__delitem__("a"),
        lambda: rearranging.commit("empty"),
        lambda: repo.rearrange_session("nope"),
    ]
    return str(rearranging.mode), [attempt(engine, action) for action in actions]


def rebased(change: Callable[[Any], object]) -> Act:
    def act(engine: Engine, repo: Any) -> object:
        session = repo.rearrange_session("main")
        session.move("/g", "/k")
        edit(engine, repo, change)
        session.rebase(engine.module.ConflictDetector())
        start = session.snapshot_id
        return diff_between(repo, start, session.commit("rebased"))

    return act


def over_a_move(engine: Engine, repo: Any) -> object:
    """Ours, an edit of what they move."""
    session = repo.writable_session("main")
    zarr.open_array(session.store, path="g/x", mode="r+")[0] = 7
    other = repo.rearrange_session("main")
    other.move("/g", "/k")
    other.commit("moved")
    return attempt(engine, lambda: session.rebase(engine.module.ConflictDetector()))


@pytest.mark.parametrize(
    "act",
    [
        amended,
        amended_twice,
        amended_without_moves,
        flushed,
        forbidden,
        wrong_session,
        rebased(lambda group: group["g/x"].__setitem__(slice(0, 2), 9)),
        rebased(lambda group: group["g/x"].attrs.update(k=1)),
        rebased(lambda group: group.create_group("elsewhere")),
        over_a_move,
    ],
)
def test_other_uses(tmp_path: Path, act: Act) -> None:
    said = []
    for engine in ENGINES:
        repo = begin(engine, tmp_path / engine.name)
        said.append((act(engine, repo), state(repo)))
    assert said[0] == said[1]
    assert_each_reads_both({engine.name: tmp_path / engine.name for engine in ENGINES})


def test_what_was_added_to_a_moved_group_goes_along(tmp_path: Path) -> None:
    """In both; only frazil's transaction log says so, as the specification wants it."""
    act, found, logged = rebased(lambda group: group["g"].create_group("new")), [], []
    for engine in ENGINES:
        repo = begin(engine, tmp_path / engine.name)
        diff: Any = act(engine, repo)
        logged.append(set(diff["moved_nodes"]))
        found.append(state(repo))
    assert found[0] == found[1]
    assert logged[0] == logged[1] | {("/g/new", "/k/new")}


def test_version_1_has_no_rearrange_sessions(tmp_path: Path) -> None:
    said = []
    for engine in ENGINES:
        storage = engine.storage(tmp_path / engine.name)
        repo = engine.module.Repository.create(storage, spec_version=1)
        said.append(attempt(engine, partial(repo.rearrange_session, "main")))
    assert said == [("FormatError", "unsupported-spec-version")] * 2


# Chunks


def shift(*offset: int) -> Callable[[Any], object]:
    return lambda session: session.shift_array("/a", offset)


def reindex(*rules: Callable[[Any], object]) -> Callable[[Any], object]:
    return lambda session: session.reindex_array("/a", *rules)


@pytest.mark.parametrize(
    "change",
    [
        *(shift(by) for by in (0, 1, -1, 3, 4, 9, -(2**62), 2**40)),
        reindex(lambda place: [3 - place[0]]),
        reindex(lambda place: [3 - place[0]], lambda place: [3 - place[0]]),
        reindex(lambda place: [(place[0] + 1) % 4], lambda place: [(place[0] - 1) % 4]),
        reindex(lambda place: [place[0] + 1] if place[0] < 3 else None),
        reindex(lambda _: None),
        reindex(lambda _: None, lambda _: None),
        reindex(lambda _: None, lambda _: [2]),
        reindex(lambda place: [2] if place[0] == 0 else None, lambda _: [9]),
        reindex(lambda place: [2] if place[0] == 0 else None, lambda _: [1]),
        reindex(lambda place: [place[0] + 1]),
        lambda session: session.shift_array("/g", (1,)),
        lambda session: session.shift_array("/nope", (1,)),
        lambda session: session.shift_array("a", (1,)),
        lambda session: session.reindex_array("/g", lambda place: place),
    ],
)
def test_chunks(tmp_path: Path, change: Callable[[Any], object]) -> None:
    said = []
    for engine in ENGINES:
        repo = begin(engine, tmp_path / engine.name)
        session = repo.writable_session("main")
        start = session.snapshot_id
        answer = attempt(engine, partial(change, session))
        status, pending = plain_diff(session.status()), contents(session.store)
        session.commit("changed", allow_empty=True)
        diff = diff_between(repo, start, session.snapshot_id)
        said.append((answer, status, pending, diff, state(repo)))
    assert said[0] == said[1]
    assert_each_reads_both({engine.name: tmp_path / engine.name for engine in ENGINES})


# Rebasing over moves, and moves over other changes

SOURCES = ("/a", "/b", "/g", "/g/x", "/g/h", "/g/h/y")
_branches = itertools.count()


def answer_to_rebase(
    engine: Engine, steps: list[list[Act]], act: Act, kind: str
) -> tuple[Answer, Any, Any]:
    """The answer, the status of the session before, and the changes of each commit since."""
    repo, branch = in_memory(engine), f"moves-{next(_branches)}"
    repo.create_branch(branch, repo.lookup_branch("main"))
    session = getattr(repo, f"{kind}_session")(branch)
    act(engine, session)
    mine, theirs = diff_of(session.status()), []
    for commit in steps:
        before = repo.lookup_branch(branch)
        for step in commit:
            step(engine, branch)
        after = repo.lookup_branch(branch)
        if after != before:
            diff = repo.diff(from_snapshot_id=before, to_snapshot_id=after)
            theirs.append(diff_of(diff))
    try:
        session.rebase(engine.module.ConflictDetector())
        return Answer(None, None), mine, theirs
    except engine.module.IcechunkError as error:
        ids = [snapshot.id for snapshot in repo.ancestry(branch=branch)]
        return Answer((known_name(error), str(error.kind)), details(error, ids)), mine, theirs


def moving(moves: Moves) -> Act:
    def act(engine: Engine, session: Any) -> None:
        for move in moves:
            attempt(engine, partial(session.move, *move))

    return act


def editing(changes: Sequence[Any]) -> Act:
    def act(engine: Engine, session: Any) -> None:
        del engine
        for change in changes:
            with suppress(Exception):  # an edit may be impossible in both
                apply_edit(session.store, change)

    return act


def committing(kind: str, act: Act) -> Act:
    def commit(engine: Engine, branch: Any) -> None:
        session = getattr(in_memory(engine), f"{kind}_session")(branch)
        act(engine, session)
        if session.has_uncommitted_changes:
            session.commit("theirs")

    return commit


MOVES = st.lists(
    st.tuples(st.sampled_from(SOURCES), st.sampled_from(("/n", "/k/n", "/g/n", "/g/h/n", "/b"))),
    min_size=1,
    max_size=2,
)


@settings(max_examples=scaled(30), deadline=None)
@given(
    changes=edits(),
    moves=MOVES,
    before=st.lists(edits(), max_size=1),
    ours_moves=st.booleans(),
)
def test_a_rebase_that_meets_moves_ends_as_the_page_says(
    changes: Sequence[Any], moves: Moves, before: list[Sequence[Any]], *, ours_moves: bool
) -> None:
    """Both engines, and where they differ only as docs/differences.md has it."""
    found = []
    for engine in ENGINES:
        steps = [[committing("writable", editing(each))] for each in before]
        if ours_moves:
            steps.append([committing("writable", editing(changes))])
            found.append(answer_to_rebase(engine, steps, moving(moves), "rearrange"))
        else:
            steps.append([committing("rearrange", moving(moves))])
            found.append(answer_to_rebase(engine, steps, editing(changes), "writable"))
    (ours, mine, theirs), (reference, _, _) = found
    if ours != reference:
        excuse_for_rebase(mine, theirs, ours, reference)
