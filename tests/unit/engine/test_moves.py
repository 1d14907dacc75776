"""Nodes put elsewhere: in a session, in what is stored, and over other people's commits."""

from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from frazil.engine.merge.solver import Policy, VersionSelection
from frazil.engine.refs.repo_settings import MOVE_NODE
from frazil.engine.refs.version import Branch
from frazil.engine.repository import Repository
from frazil.engine.session.fork import fork, merge
from frazil.engine.session.session import Session
from frazil.engine.session.session_state import SessionMode
from frazil.errors import (
    AlreadyExistsError,
    ConflictType,
    FormatError,
    IcechunkError,
    NodeNotFoundError,
    ReadOnlyError,
    RebaseFailedError,
    RefNotFoundError,
    SessionStateError,
)
from frazil.objectstore.memory import MemoryStore
from frazil.paths import ROOT, NodePath
from tests.examples_count import scaled
from tests.unit.engine.conftest import GROUP, array_metadata

SOLVE_ALL = Policy(
    on_chunk_conflict=VersionSelection.UseOurs,
    delete_updated_arrays=True,
    delete_updated_groups=True,
)

type Edit = Callable[[Session], None]


def path(text: str) -> NodePath:
    return NodePath(text)


@pytest.fixture
def repository(store: MemoryStore) -> Repository:
    """/g with an array /g/x and a group /g/h, an array /b, and an empty group /e."""
    return filled(Repository.create(store))


def filled(repository: Repository) -> Repository:
    session = repository.writable_session("main")
    for text in ("/", "/g", "/g/h", "/e"):
        session.set_node(path(text), GROUP)
    for text in ("/g/x", "/b"):
        session.set_node(path(text), array_metadata(8))
        session.set_chunk(path(text), (1,), text.encode())
    session.commit("base")
    return repository


def tree(session: Session) -> list[str]:
    return [node.path.text for node in session.nodes()]


def moves_of(session: Session) -> list[tuple[str, str]]:
    return [(move.from_path.text, move.to_path.text) for move in session.status().moved]


def rearranged(repository: Repository, *moves: tuple[str, str]) -> Session:
    session = repository.rearrange_session("main")
    for source, target in moves:
        session.move(path(source), path(target))
    return session


def test_a_group_moves_with_all_that_is_below_it(repository: Repository) -> None:
    before = {
        node.path.text: node.id for node in repository.readonly_session(Branch("main")).nodes()
    }
    session = rearranged(repository, ("/g", "/e/k"))
    expected = ["/", "/b", "/e", "/e/k", "/e/k/h", "/e/k/x"]
    assert tree(session) == expected
    assert session.child_names(ROOT) == ["b", "e"]
    session.commit("moved")
    stored = repository.readonly_session(Branch("main"))
    assert tree(stored) == expected
    assert stored.node(path("/e/k/x")).id == before["/g/x"]
    assert stored.fetch_chunk(path("/e/k/x"), (1,)) == b"/g/x"
    assert stored.find_node(path("/g")) is None


def test_nodes_can_take_each_others_places(repository: Repository) -> None:
    session = rearranged(repository, ("/g", "/aside"), ("/b", "/g"), ("/aside", "/b"))
    expected = [("/g", "/b"), ("/g/h", "/b/h"), ("/g/x", "/b/x"), ("/b", "/g")]
    assert moves_of(session) == expected
    start, end = session.snapshot_id, session.commit("swapped")
    found = repository.diff(start, end)
    assert [(move.from_path.text, move.to_path.text) for move in found.moved] == expected
    assert {*found.new_arrays, *found.deleted_arrays, *found.updated_arrays} == set()
    stored = repository.readonly_session(Branch("main"))
    assert stored.fetch_chunk(path("/g"), (1,)) == b"/b"
    assert stored.fetch_chunk(path("/b/x"), (1,)) == b"/g/x"


def test_moves_ascend_by_component(repository: Repository) -> None:
    session = rearranged(repository, ("/b", "/e-z"), ("/g", "/e/b"))
    assert [to for _, to in moves_of(session)] == ["/e/b", "/e/b/h", "/e/b/x", "/e-z"]


def test_moving_there_and_back_leaves_nothing_to_record(repository: Repository) -> None:
    session = rearranged(repository, ("/g", "/k"), ("/k", "/g"))
    assert moves_of(session) == []
    before = tree(repository.readonly_session(Branch("main")))
    session.commit("as in the reference, this can be committed")
    assert tree(repository.readonly_session(Branch("main"))) == before


def test_discarding_puts_everything_back(repository: Repository) -> None:
    session = rearranged(repository, ("/g", "/k"))
    session.discard_changes()
    assert not session.has_uncommitted_changes
    assert tree(session) == ["/", "/b", "/e", "/g", "/g/h", "/g/x"]


@pytest.mark.parametrize(
    ("source", "target", "error", "kind"),
    [
        ("/nope", "/q", NodeNotFoundError, "node-not-found"),
        ("/nope", "/b", NodeNotFoundError, "node-not-found"),
        ("/", "/q", SessionStateError, "move-into-self-or-descendant"),
        ("/g", "/g", SessionStateError, "move-into-self-or-descendant"),
        ("/g", "/g/h/k", SessionStateError, "move-into-self-or-descendant"),
        ("/g", "/", AlreadyExistsError, "move-wont-overwrite"),
        ("/b", "/g/x", AlreadyExistsError, "move-wont-overwrite"),
        ("/b", "/zz/b", SessionStateError, "move-destination-parent-missing"),
        ("/b", "/g/x/b", SessionStateError, "move-destination-parent-not-group"),
    ],
)
def test_a_move_that_cannot_be_is_refused_and_changes_nothing(
    repository: Repository, source: str, target: str, error: type[IcechunkError], kind: str
) -> None:
    session = repository.rearrange_session("main")
    with pytest.raises(error) as refused:
        session.move(path(source), path(target))
    assert refused.value.kind == kind
    assert not session.has_uncommitted_changes


def test_a_name_that_begins_alike_is_not_below(repository: Repository) -> None:
    session = rearranged(repository, ("/g", "/gg"))
    assert session.find_node(path("/gg/x")) is not None


def test_a_rearrange_session_only_moves(repository: Repository) -> None:
    session = repository.rearrange_session("main")
    modes = [session.mode]
    writes: list[Edit] = [
        lambda s: s.set_node(path("/n"), GROUP),
        lambda s: s.delete_node(path("/b")),
        lambda s: s.set_chunk(path("/b"), (0,), b"x"),
        lambda s: s.delete_chunk(path("/b"), (1,)),
        lambda s: s.shift_array(path("/b"), (1,)),
        lambda s: s.reindex_array(path("/b"), lambda place: place),
        lambda s: merge(s, [fork(s)]),
    ]
    for write in writes:
        with pytest.raises(SessionStateError) as refused:
            write(session)
        assert refused.value.kind == "rearrange-session-only"
    session.commit("nothing", allow_empty=True)
    modes.append(session.mode)
    assert modes == [SessionMode.REARRANGE, SessionMode.READONLY]


def test_other_sessions_do_not_move(repository: Repository) -> None:
    writable = repository.writable_session("main")
    for session in (writable, fork(writable)):
        with pytest.raises(SessionStateError) as refused:
            session.move(path("/b"), path("/c"))
        assert refused.value.kind == "non-rearrange-session"
    with pytest.raises(ReadOnlyError):
        repository.readonly_session(Branch("main")).move(path("/b"), path("/c"))


def test_a_fork_of_a_rearrange_session_sees_the_moves_and_cannot_be_merged(
    repository: Repository,
) -> None:
    copy = fork(rearranged(repository, ("/g", "/k")))
    assert tree(copy) == ["/", "/b", "/e", "/k", "/k/h", "/k/x"]
    with pytest.raises(SessionStateError) as refused:
        merge(repository.writable_session("main"), [copy])
    assert refused.value.kind == "rearrange-session-only"


def test_the_feature_flag_is_respected_to_the_end(repository: Repository) -> None:
    session = rearranged(repository, ("/b", "/c"))
    repository.set_flag(MOVE_NODE, value=False)
    attempts: list[Callable[[], object]] = [
        lambda: session.commit("late"),
        lambda: session.amend("late"),
        lambda: session.flush("late"),
        lambda: repository.rearrange_session("main"),
    ]
    for attempt in attempts:
        with pytest.raises(SessionStateError) as refused:
            attempt()
        assert refused.value.kind == "feature-flag-disabled"
    repository.set_flag(MOVE_NODE, None)
    session.commit("allowed again")


def test_version_1_and_missing_branches_have_no_rearrange_sessions(repository: Repository) -> None:
    with pytest.raises(RefNotFoundError):
        repository.rearrange_session("nope")
    with pytest.raises(FormatError, match="at least version"):
        Repository.create(MemoryStore(), spec_version=1).rearrange_session("main")


def test_amending_collapses_the_moves_of_both(repository: Repository) -> None:
    start = repository.lookup_branch("main")
    rearranged(repository, ("/b", "/c")).commit("first")
    session = repository.rearrange_session("main")
    session.move(path("/c"), path("/e/d"))
    found = repository.diff(start, session.amend("both"))
    assert [(m.from_path.text, m.to_path.text) for m in found.moved] == [("/b", "/e/d")]


def test_a_commit_of_moves_can_be_amended_without_more_of_them(repository: Repository) -> None:
    start = repository.lookup_branch("main")
    rearranged(repository, ("/b", "/c")).commit("first")
    with pytest.raises(SessionStateError) as refused:
        repository.writable_session("main").amend("another message", allow_empty=True)
    assert refused.value.kind == "rearrange-session-only"
    end = repository.rearrange_session("main").amend("another message", allow_empty=True)
    found = repository.diff(start, end)
    assert [(m.from_path.text, m.to_path.text) for m in found.moved] == [("/b", "/c")]


# Over other people's commits


def rebase_over(repository: Repository, ours: list[tuple[str, str]], theirs: Edit) -> Session:
    session = rearranged(repository, *ours)
    other = repository.writable_session("main")
    theirs(other)
    other.commit("theirs")
    session.rebase(SOLVE_ALL)
    return session


def test_edits_of_what_we_move_go_along(repository: Repository) -> None:
    def theirs(session: Session) -> None:
        session.set_chunk(path("/g/x"), (2,), b"new")
        session.set_node(path("/g/x"), array_metadata(10))
        session.set_node(path("/g/added"), GROUP)
        session.delete_node(path("/g/h"))
        session.set_node(path("/other"), GROUP)

    rebase_over(repository, [("/g", "/k")], theirs).commit("moved")
    stored = repository.readonly_session(Branch("main"))
    assert tree(stored) == ["/", "/b", "/e", "/k", "/k/added", "/k/x", "/other"]
    array = stored.node(path("/k/x")).array
    assert array is not None
    assert array.shape == (10,)
    assert stored.fetch_chunk(path("/k/x"), (1,)) == b"/g/x"
    assert stored.fetch_chunk(path("/k/x"), (2,)) == b"new"


def test_a_swap_can_be_rebased(repository: Repository) -> None:
    ours = [("/g", "/aside"), ("/b", "/g"), ("/aside", "/b")]
    session = rebase_over(repository, ours, lambda s: s.set_node(path("/g/n"), GROUP))
    session.commit("swapped")
    assert tree(repository.readonly_session(Branch("main"))) == [
        *("/", "/b", "/b/h", "/b/n", "/b/x", "/e", "/g"),
    ]


def recreate_b(session: Session) -> None:
    session.delete_node(path("/b"))
    session.set_node(path("/b"), GROUP)


def replace_e(session: Session) -> None:
    session.delete_node(path("/e"))
    session.set_node(path("/e"), array_metadata(4))


NEW, GROUPLESS, MOVE = (
    ConflictType.NewNodeConflictsWithExistingNode,
    ConflictType.NewNodeInInvalidGroup,
    ConflictType.MoveOperationCannotBeRebased,
)


@pytest.mark.parametrize(
    ("ours", "theirs", "expected"),
    [
        ([("/b", "/c")], lambda s: s.set_node(path("/c"), GROUP), [(NEW, "/c")]),
        ([("/b", "/c")], lambda s: s.delete_node(path("/b")), [(MOVE, "/b")]),
        ([("/b", "/c")], recreate_b, [(MOVE, "/b")]),
        ([("/b", "/e/b")], lambda s: s.delete_node(path("/e")), [(GROUPLESS, "/e")]),
        ([("/b", "/e/b")], replace_e, [(GROUPLESS, "/e")]),
        (
            [("/g", "/k"), ("/b", "/k/y")],
            lambda s: s.set_node(path("/g/y"), GROUP),
            [(NEW, "/k/y")],
        ),
    ],
)
def test_a_move_whose_ends_were_changed_is_a_conflict(
    repository: Repository,
    ours: list[tuple[str, str]],
    theirs: Edit,
    expected: list[tuple[ConflictType, str]],
) -> None:
    with pytest.raises(RebaseFailedError) as failed:
        rebase_over(repository, ours, theirs)
    assert [(one.conflict_type, one.path) for one in failed.value.conflicts] == expected


@pytest.mark.parametrize(
    "theirs", [("/b", "/f"), ("/e", "/c"), ("/g", "/c"), ("/b", "/c"), ("/b", "/g/b")]
)
def test_moves_over_moves_clash_where_they_meet(
    repository: Repository, theirs: tuple[str, str]
) -> None:
    session = rearranged(repository, ("/b", "/c"))
    rearranged(repository, theirs).commit("theirs")
    with pytest.raises(RebaseFailedError) as failed:
        session.rebase(SOLVE_ALL)
    assert MOVE in {one.conflict_type for one in failed.value.conflicts}


@pytest.mark.parametrize("theirs", [("/e", "/f"), ("/g", "/e/g"), ("/g/x", "/x")])
def test_moves_elsewhere_do_not_matter(repository: Repository, theirs: tuple[str, str]) -> None:
    session = rearranged(repository, ("/b", "/c"))
    rearranged(repository, theirs).commit("theirs")
    session.rebase(SOLVE_ALL)
    session.commit("ours")
    found = set(tree(repository.readonly_session(Branch("main"))))
    assert {"/c", theirs[1]} <= found
    assert found.isdisjoint({"/b", theirs[0]})


# Against a model

NAMES = ("a", "b", "c")
PLACES = [f"/{a}" for a in NAMES] + [f"/{a}/{b}" for a in NAMES for b in NAMES]
PLACES += [f"/{a}/{b}/{c}" for a in NAMES[:2] for b in NAMES[:2] for c in NAMES[:2]]


def grown(present: set[str]) -> Repository:
    """With groups at these places, and above them."""
    repository = Repository.create(MemoryStore())
    session = repository.writable_session("main")
    nodes = {"/"} | {p.text for text in present for p in (path(text), *path(text).ancestors)}
    for text in sorted(nodes):
        session.set_node(path(text), GROUP)
    session.commit("base")
    return repository


@settings(max_examples=scaled(60), deadline=None)
@given(
    present=st.sets(st.sampled_from(PLACES), max_size=10),
    moves=st.lists(st.tuples(st.sampled_from(PLACES), st.sampled_from(PLACES)), max_size=12),
)
def test_any_moves_do_what_a_dict_of_paths_would(
    present: set[str], moves: list[tuple[str, str]]
) -> None:
    repository = grown(present)
    session = repository.rearrange_session("main")
    model = {node.path.text: node.id for node in session.nodes()}
    before = {node_id: text for text, node_id in model.items()}
    for source, target in moves:
        legal = (
            source in model
            and target not in model
            and not target.startswith(source + "/")
            and (target.rpartition("/")[0] or "/") in model
        )
        try:
            session.move(path(source), path(target))
        except IcechunkError:
            assert not legal
            continue
        assert legal
        model = {
            target + text.removeprefix(source)
            if text == source or text.startswith(source + "/")
            else text: node_id
            for text, node_id in model.items()
        }
    net = {(before[node_id], text) for text, node_id in model.items() if before[node_id] != text}
    assert set(moves_of(session)) == net
    assert len(moves_of(session)) == len(net)
    session.commit("moved", allow_empty=True)
    stored = repository.readonly_session(Branch("main"))
    assert {node.path.text: node.id for node in stored.nodes()} == model


def move_what_can_be(session: Session, moves: list[tuple[str, str]]) -> None:
    for source, target in moves:
        with suppress(IcechunkError):
            session.move(path(source), path(target))


def edit_what_can_be(session: Session, edits: list[tuple[bool, str]]) -> None:
    for deletes, text in edits:
        if deletes:
            session.delete_node(path(text))
        elif all(session.find_node(above) for above in path(text).ancestors):
            session.set_node(path(text), GROUP)


SOME_MOVES = st.lists(st.tuples(st.sampled_from(PLACES), st.sampled_from(PLACES)), max_size=6)


@settings(max_examples=scaled(80), deadline=None)
@given(
    present=st.sets(st.sampled_from(PLACES), max_size=8),
    ours=SOME_MOVES,
    theirs=SOME_MOVES | st.lists(st.tuples(st.booleans(), st.sampled_from(PLACES)), max_size=4),
)
def test_a_rebased_move_loses_no_node_and_leaves_none_without_a_group(
    present: set[str], ours: list[tuple[str, str]], theirs: list[Any]
) -> None:
    repository = grown(present)
    session = repository.rearrange_session("main")
    move_what_can_be(session, ours)
    if theirs and isinstance(theirs[0][0], str):
        other = repository.rearrange_session("main")
        move_what_can_be(other, theirs)
    else:
        other = repository.writable_session("main")
        edit_what_can_be(other, theirs)
    other.commit("theirs", allow_empty=True)
    expected = sorted(node.id for node in repository.readonly_session(Branch("main")).nodes())
    wanted = {move.node_id: move.to_path for move in session.status().moved}
    try:
        session.rebase(SOLVE_ALL)
    except RebaseFailedError:
        return
    shown = tree(session)
    session.commit("ours", allow_empty=True)
    stored = list(repository.readonly_session(Branch("main")).nodes())
    assert [node.path.text for node in stored] == shown
    assert sorted(node.id for node in stored) == expected
    paths = {node.path for node in stored}
    assert len(paths) == len(stored)
    assert all(node.path.parent in paths for node in stored if node.path != ROOT)
    assert all(node.path == wanted[node.id] for node in stored if node.id in wanted)
