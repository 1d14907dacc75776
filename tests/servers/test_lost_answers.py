"""Answers that get lost, come late or are wrong: nothing is lost, nothing is done twice.

A fault proxy stands between frazil and a real server. Whoever asks for something through it must be
told what became of it, and another client, on a straight line, must find exactly that.
"""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace

import icechunk
import pytest
import zarr

from frazil import ConflictError, Repository, Session, Storage
from frazil.engine.refs import ops_log
from frazil.errors import PreconditionFailedError
from frazil.objectstore import Absent, Matches
from frazil.objectstore.protocol import RemoteSettings
from frazil.objectstore.remote.remote_writes import Writer, _Current, _Write
from frazil.testing.fault_proxy import FaultProxy
from frazil.testing.faults import (
    AnswerWith,
    DelayRequest,
    DelayResponse,
    DropRequest,
    DropResponse,
    Fault,
    RandomFaults,
    RefuseWith,
    Rule,
    Script,
)
from tests.servers.azure import AzureServer
from tests.servers.s3 import S3Server

type Server = S3Server | AzureServer

BRISK = RemoteSettings(max_tries=12, initial_backoff_ms=2, max_backoff_ms=20)
FAULTS: list[Fault] = [
    DropResponse(),
    DropResponse(reset=True),
    AnswerWith(500),
    AnswerWith(503),
    DropRequest(reset=True),
    RefuseWith(500),
    RefuseWith(503),
    DelayResponse(0.1),
    DelayRequest(0.1),
]


@dataclass(frozen=True, slots=True)
class Line:
    """One repository, reached through the proxy and directly."""

    server: Server
    prefix: str
    proxy: FaultProxy

    @property
    def shaky(self) -> Storage:
        return Storage(self.server.at(self.proxy.url).store(self.prefix, BRISK))

    @property
    def straight(self) -> Storage:
        return Storage(self.server.store(self.prefix, BRISK))

    @property
    def entry(self) -> str:
        """In the path of every request for the one object that commits replace."""
        return f"/{self.prefix}/repo"

    def hit(self, fault: Fault, times: int = 1) -> None:
        self.proxy.choose = Script(Rule(fault, method="PUT", path=self.entry, times=times))

    def reference(self) -> icechunk.Repository:
        return icechunk.Repository.open(self.server.storage(icechunk, self.prefix))


@pytest.fixture(params=["hot_s3_server", "azure_server"])
def line(request: pytest.FixtureRequest, fault_proxy: Callable[[str], FaultProxy]) -> Line:
    server: Server = request.getfixturevalue(request.param)
    return Line(server, server.new_prefix(), fault_proxy(server.host))


def edit(repo: Repository, message: str) -> Session:
    """A session with one change, which is in nobody's way."""
    session = repo.writable_session("main")
    zarr.create_group(session.store, path=message, overwrite=True)
    return session


def messages(repo: Repository | icechunk.Repository, branch: str = "main") -> list[str]:
    return [info.message for info in repo.ancestry(branch=branch)][:-1][::-1]


def kinds(repo: Repository) -> list[str]:
    """Of all entries of the ops log, oldest first; reads every page of it."""
    return [type(entry.kind).__name__ for entry in repo.ops_log()][::-1]


# One fault, one operation


@dataclass(frozen=True, slots=True)
class Operation:
    """`act` once; afterwards `done` and one entry of this kind more in the ops log."""

    act: Callable[[Repository], object]
    done: Callable[[Repository], bool]
    logged: str


OPERATIONS = {
    "commit": Operation(
        lambda repo: edit(repo, "new").commit("new"),
        lambda repo: messages(repo) == ["first", "new"],
        "NewCommit",
    ),
    "amend": Operation(
        lambda repo: edit(repo, "new").amend("amended"),
        lambda repo: messages(repo) == ["amended"],
        "CommitAmended",
    ),
    "create_branch": Operation(
        lambda repo: repo.create_branch("new", repo.lookup_branch("main")),
        lambda repo: repo.list_branches() == {"main", "old", "new"},
        "BranchCreated",
    ),
    "reset_branch": Operation(
        lambda repo: repo.reset_branch("old", repo.lookup_branch("main")),
        lambda repo: repo.lookup_branch("old") == repo.lookup_branch("main"),
        "BranchReset",
    ),
    "delete_branch": Operation(
        lambda repo: repo.delete_branch("old"),
        lambda repo: repo.list_branches() == {"main"},
        "BranchDeleted",
    ),
    "create_tag": Operation(
        lambda repo: repo.create_tag("new", repo.lookup_branch("main")),
        lambda repo: repo.list_tags() == {"old", "new"},
        "TagCreated",
    ),
    "delete_tag": Operation(
        lambda repo: repo.delete_tag("old"),
        lambda repo: repo.list_tags() == set(),
        "TagDeleted",
    ),
    "set_metadata": Operation(
        lambda repo: repo.set_metadata({"answer": 42}),
        lambda repo: repo.metadata == {"answer": 42},
        "MetadataChanged",
    ),
}


def begun(line: Line) -> Repository:
    """As the straight client sees it: one commit, a branch and a tag."""
    repo = Repository.create(line.straight)
    repo.create_branch("old", repo.lookup_branch("main"))
    repo.create_tag("old", repo.lookup_branch("main"))
    edit(repo, "first").commit("first")
    return repo


def assert_done_once(line: Line, operation: Operation, before: list[str]) -> None:
    found = Repository.open(line.straight)
    assert operation.done(found)
    assert kinds(found) == [*before, operation.logged]
    assert messages(line.reference()) == messages(found)


# Every operation with the worst fault, and one operation with every fault.
CASES = [(name, DropResponse()) for name in OPERATIONS] + [
    ("commit", fault) for fault in FAULTS[1:]
]


@pytest.mark.parametrize(("name", "fault"), CASES, ids=str)
def test_an_operation_is_done_once_whatever_happens_to_its_answer(
    line: Line, name: str, fault: Fault
) -> None:
    operation = OPERATIONS[name]
    before = kinds(begun(line))
    repo = Repository.open(line.shaky)
    line.hit(fault)
    operation.act(repo)
    assert any(one.fault == fault for one in line.proxy.seen)
    assert_done_once(line, operation, before)


def test_a_repository_is_created_once_though_the_answer_was_lost(line: Line) -> None:
    line.hit(DropResponse())
    Repository.create(line.shaky)
    assert kinds(Repository.open(line.straight)) == ["RepoInitialized"]


# A lost answer, and somebody else who goes on before one can look


class Overtaking:
    """The first write of the entry loses its answer; before it is sent again, another commits."""

    def __init__(self, other: Repository, entry: str) -> None:
        self._other = other
        self._entry = entry
        self._writes = 0

    def __call__(self, method: str, path: str) -> Fault | None:
        if method != "PUT" or self._entry not in path:
            return None
        self._writes += 1
        if self._writes == 2:
            edit(self._other, "overtaking").commit("overtaking")
        return DropResponse() if self._writes == 1 else None


@pytest.mark.parametrize("name", ["commit", "create_tag", "delete_branch"])
def test_an_operation_is_done_once_though_others_have_gone_on_since(line: Line, name: str) -> None:
    operation = OPERATIONS[name]
    other = begun(line)
    before = kinds(other)
    repo = Repository.open(line.shaky)
    line.proxy.choose = Overtaking(other, line.entry)
    operation.act(repo)
    found = Repository.open(line.straight)
    assert kinds(found) == [*before, operation.logged, "NewCommit"]
    assert messages(found)[-1] == "overtaking"
    assert messages(found).count("new") == (name == "commit")
    assert messages(line.reference()) == messages(found)


def test_a_commit_to_version_1_is_made_once_though_others_have_gone_on_since(line: Line) -> None:
    other = Repository.create(line.straight, spec_version=1)
    edit(other, "first").commit("first")
    repo = Repository.open(line.shaky)
    line.proxy.choose = Overtaking(other, "/refs/branch.main/ref.json")
    edit(repo, "new").commit("new")
    found = Repository.open(line.straight)
    assert messages(found) == messages(line.reference()) == ["first", "new", "overtaking"]


# Many writers in bad weather


def commit_all(storage: Storage, names: list[str]) -> dict[str, str]:
    """Message and snapshot of each commit, as it was reported; a conflict is begun anew."""
    repo = Repository.open(storage)
    done = dict[str, str]()
    for name in names:
        while name not in done:
            session = edit(repo, name)
            try:
                done[name] = session.commit(name)
            except ConflictError:
                continue
    return done


def commit_in_bad_weather(line: Line, seed: int) -> dict[str, str]:
    """What four writers were told. Their faults are all of those above."""
    Repository.create(line.straight)
    line.proxy.choose = RandomFaults(FAULTS, share=0.25, seed=seed, methods=["PUT", "GET", "HEAD"])
    with ThreadPoolExecutor(4) as pool:
        told = pool.map(
            lambda writer: commit_all(line.shaky, [f"w{writer}-{n}" for n in range(4)]), range(4)
        )
        return {message: snapshot for part in told for message, snapshot in part.items()}


def assert_told_is_done(line: Line, told: dict[str, str]) -> None:
    found = Repository.open(line.straight)
    history = [(info.message, info.id) for info in found.ancestry(branch="main")][:-1]
    assert sorted(history) == sorted(told.items())
    assert kinds(found) == ["RepoInitialized"] + ["NewCommit"] * len(told)
    assert set(zarr.open_group(found.readonly_session("main").store, mode="r")) == set(told)
    reference = line.reference()
    assert [info.id for info in reference.ancestry(branch="main")][:-1] == [i for _, i in history]


@pytest.mark.parametrize("seed", [1, 2])
def test_what_writers_are_told_is_what_was_done(line: Line, seed: int) -> None:
    told = commit_in_bad_weather(line, seed)
    assert len(told) == 16
    assert sum(one.fault is not None for one in line.proxy.seen) > 20
    assert_told_is_done(line, told)


def look_back_in_vain(monkeypatch: pytest.MonkeyPatch) -> None:
    """frazil without what these tests are about: no write is ever recognised as one's own."""
    look = Writer._look

    def sees_others(self: Writer, write: _Write) -> _Current | None:
        found = look(self, write)
        return found and replace(found, ours=False)

    monkeypatch.setattr(Writer, "_look", sees_others)
    monkeypatch.setattr(ops_log, "was_stored", lambda *_, **__: False)


def test_a_client_that_does_not_look_back_is_found_out(
    line: Line, monkeypatch: pytest.MonkeyPatch
) -> None:
    Repository.create(line.straight)
    look_back_in_vain(monkeypatch)
    line.hit(DropResponse())
    told = commit_all(line.shaky, ["one", "two"])
    assert sorted(told) == ["one", "two"]
    with pytest.raises(AssertionError):
        assert_told_is_done(line, told)


# Below the engine: one object, one writer; of several, only the engine's log can tell


def count_in_bad_weather(line: Line, target: int) -> int:
    """What the counter says after the store has told so many times that it was incremented."""
    line.straight.store.put("counter", b"0", when=Absent())
    line.proxy.choose = RandomFaults(FAULTS, share=0.4, seed=3, methods=["PUT", "HEAD"])
    store = line.shaky.store
    told = 0
    while told < target:
        found = store.get("counter")
        try:
            store.put("counter", b"%d" % (int(bytes(found.data)) + 1), when=Matches(found.version))
        except PreconditionFailedError:
            continue
        told += 1
    return int(bytes(line.straight.store.get("counter").data))


def test_a_counter_counts_what_was_told(line: Line) -> None:
    assert count_in_bad_weather(line, 30) == 30


def test_a_store_that_does_not_look_back_counts_twice(
    line: Line, monkeypatch: pytest.MonkeyPatch
) -> None:
    look_back_in_vain(monkeypatch)
    assert count_in_bad_weather(line, 30) > 30
