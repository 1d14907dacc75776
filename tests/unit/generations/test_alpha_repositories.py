"""Repositories written as alpha1 and alpha2 describe them: a sequence of files for each branch."""

import json
import pickle
from collections.abc import Buffer, Callable
from concurrent.futures import ThreadPoolExecutor

import msgpack  # type: ignore[import-untyped]  # the package has no type information
import numpy as np
import pytest

from frazil.engine.merge.rebase import Rebasing
from frazil.engine.merge.solver import Policy
from frazil.engine.refs.version import Branch, BranchAsOf, Exactly, Tag
from frazil.engine.repository import Repository
from frazil.engine.session.fork import fork, merge
from frazil.errors import (
    AlreadyExistsError,
    ConflictError,
    FormatError,
    InvalidInputError,
    ObjectNotFoundError,
    PreconditionFailedError,
    RefNotFoundError,
    RepositoryNotFoundError,
    StorageError,
)
from frazil.format.chunk_refs import ChunkRefs, Inline, LastModified, Virtual
from frazil.format.conditions import ManifestSplitCondition, ManifestSplitDimCondition
from frazil.format.config import ManifestConfig, ManifestSplittingConfig, RepositoryConfig
from frazil.format.generation import Generation
from frazil.generations.alpha_refs import branch_file_key, parse_ref_key
from frazil.ids import SnapshotId
from frazil.objectstore.memory import MemoryStore
from frazil.objectstore.protocol import ALWAYS, Matches, Precondition
from frazil.objectstore.wrappers import Verb
from frazil.paths import NodePath
from frazil.testing.hooked_store import HookedStore
from tests.unit.engine.conftest import GROUP

WRITTEN = [Generation.A2E, Generation.ALPHA1]
MAIN = {Generation.A2E: "refs/branch.main/", Generation.ALPHA1: "r/main/"}
TAGS = {Generation.A2E: "refs/tag.{}/ref.json", Generation.ALPHA1: "r/{}.json"}


class OnlyCreates(HookedStore[MemoryStore]):
    """A store that cannot replace an object conditionally, and may lose the answers of puts."""

    def __init__(self, inner: MemoryStore) -> None:
        super().__init__(inner, before=self._refuse_listing, after=self._lose_answer)
        self.lost = 0  # answers still to be lost, of refs that are created
        self.can_list = True

    def put(self, key: str, data: Buffer, *, when: Precondition = ALWAYS) -> str:
        if isinstance(when, Matches):
            raise StorageError("conditional updates are not supported here")
        return super().put(key, data, when=when)

    def _refuse_listing(self, verb: Verb, key: str) -> None:
        del key
        if verb == "list" and not self.can_list:
            raise StorageError("listing is not supported here")

    def _lose_answer(self, verb: Verb, key: str) -> None:
        if verb == "put" and self.lost and key.startswith(("r/", "refs/")):
            self.lost -= 1
            raise PreconditionFailedError(key, "a second try after a lost answer")


@pytest.fixture
def place() -> OnlyCreates:
    return OnlyCreates(MemoryStore())


@pytest.fixture(params=WRITTEN)
def repository(request: pytest.FixtureRequest, place: OnlyCreates) -> Repository:
    return Repository.create(place, generation=request.param)


def metadata(shape: int = 4, **attributes: object) -> bytes:
    document = {
        "zarr_format": 3,
        "node_type": "array",
        "attributes": attributes,
        "shape": [shape],
        "data_type": "int16",
        "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [2]}},
        "chunk_key_encoding": {"name": "default", "configuration": {"separator": "/"}},
        "fill_value": -1,
        "codecs": [{"name": "bytes", "configuration": {"endian": "little"}}],
    }
    return json.dumps(document).encode()


def add_group(repository: Repository, path: str, *, branch: str = "main") -> SnapshotId:
    session = repository.writable_session(branch)
    session.set_node(NodePath(path), GROUP)
    return session.commit(f"add {path}", {"path": path})


def keys(place: OnlyCreates, prefix: str = "") -> list[str]:
    return sorted(found.key for found in place.list(prefix))


def messages(repository: Repository, branch: str = "main") -> list[str]:
    return [record.message for record in repository.ancestry(Branch(branch))]


def test_every_commit_makes_the_next_file_of_its_branch(
    repository: Repository, place: OnlyCreates
) -> None:
    for path in ("/", "/a", "/b"):
        add_group(repository, path)
    names = [f"{MAIN[repository.generation]}ZZZZZZZ{end}.json" for end in "WXYZ"]
    assert keys(place, MAIN[repository.generation]) == names
    assert not keys(place, "transactions/")
    assert not keys(place, "t/")


def test_the_hundredth_file_is_named_as_documented() -> None:
    assert branch_file_key(Generation.A2E, "main", 100) == "refs/branch.main/ZZZZZZWV.json"
    assert branch_file_key(Generation.ALPHA1, "main", 100) == "r/main/ZZZZZZWV.json"
    assert branch_file_key(Generation.A2E, "main", 2**40 - 1) == "refs/branch.main/00000000.json"
    with pytest.raises(ConflictError):
        branch_file_key(Generation.A2E, "main", 2**40)


@pytest.mark.parametrize(
    ("key", "sequence"),
    [
        ("refs/branch:main/ZZZZZZZZZZZZY.json", 0),
        ("refs/branch:main/ZZZZZZZZZZZZW.json", 1),
        ("r/branch:main/ZZZZZZZZZZZZT.json", 2),
        ("refs/branch.main/ZZZZZZWV.json", 100),
    ],
)
def test_numbers_of_files_count_down(key: str, sequence: int) -> None:
    found = parse_ref_key(key)
    assert found is not None
    assert (found.kind, found.name, found.sequence) == ("branch", "main", sequence)


@pytest.mark.parametrize(
    "key",
    [
        "refs/branch.main/ref.json",
        "refs/branch.main/short.json",
        "refs/branch.main/ZZZZZZZU.json",  # no letter of the alphabet
        "refs/branch.main/ZZZZZZZZ",
        "refs/other.main/ZZZZZZZZ.json",
        "refs/tag.main/ZZZZZZZZ.json",
        "refs/branch./ZZZZZZZZ.json",
        "refs/file",
    ],
)
def test_other_files_are_no_refs(key: str) -> None:
    assert parse_ref_key(key) is None


def test_what_was_committed_is_read_back(repository: Repository, place: OnlyCreates) -> None:
    session = repository.writable_session("main")
    session.set_node(NodePath("/"), GROUP)
    session.set_node(NodePath("/a"), metadata(units="m"))
    session.set_chunk(NodePath("/a"), (0,), b"1234")
    session.set_chunk(NodePath("/a"), (1,), b"x" * 5000)
    first = session.commit("an array", {"n": 1})
    again = Repository.open(place)
    assert again.generation is repository.generation
    read = again.readonly_session(Branch("main"))
    assert read.fetch_chunk(NodePath("/a"), (0,)) == b"1234"
    assert bytes(read.fetch_chunk(NodePath("/a"), (1,)) or b"") == b"x" * 5000
    assert json.loads(read.node(NodePath("/a")).user_data) == json.loads(metadata(units="m"))
    assert read.node(NodePath("/a")) == session.node(NodePath("/a"))
    [newest, initial] = again.ancestry(Branch("main"))
    assert (newest.id, newest.message, newest.metadata) == (first, "an array", {"n": 1})
    assert newest.parent_id == initial.id
    assert again.readonly_session(Exactly(initial.id)).find_node(NodePath("/")) is None
    [file] = again.manifest_files(first)
    assert keys(place, "m/" if again.generation is Generation.ALPHA1 else "manifests/")
    assert again.files.fetch_manifest(file.id).num_refs == 2


def test_refs_are_as_documented(repository: Repository, place: OnlyCreates) -> None:
    first = add_group(repository, "/")
    repository.create_tag("v1", first)
    repository.create_branch("dev", first)
    add_group(repository, "/dev", branch="dev")
    again = Repository.open(place)
    assert again.lookup_tag("v1") == first
    assert messages(again, "dev") == ["add /dev", "add /", *messages(again)[1:]]
    assert again.readonly_session(Tag("v1")).snapshot_id == first
    data = json.loads(bytes(place.get(TAGS[repository.generation].format("v1")).data))
    if repository.generation is Generation.A2E:
        assert data == {"snapshot": str(first)}
    else:
        assert data["snapshot"] == [*first.raw, 0, 0, 0, 0]
        assert data.keys() == {"snapshot", "timestamp", "properties"}


def test_snapshots_have_the_fields_of_the_document(
    repository: Repository, place: OnlyCreates
) -> None:
    add_group(repository, "/")
    tip = add_group(repository, "/a")
    if repository.generation is Generation.ALPHA1:
        found = msgpack.unpackb(place.get(f"s/{tip}000000.msgpack").data)
        assert len(found) == 7
        history = [entry[2] for entry in found[2]]
        assert history == ["Dataset initialized", "add /"]
    else:
        found = msgpack.unpackb(place.get(f"snapshots/{tip}").data)
        assert len(found) == 11
        assert found[:4] == [0, {}, [], []]
        history = [entry[2] for entry in found[6]]
        assert history == ["add /", "Repository initialized"]
    assert found[-7:-5] == [2, 2]
    assert found[-2] == {"path": "/a"}
    assert list(found[-1]) == ["/", "/a"]
    assert all(0 <= node[0] < 2**32 for node in found[-1].values())


def test_of_two_commits_on_one_snapshot_the_second_is_refused(repository: Repository) -> None:
    first, second = repository.writable_session("main"), repository.writable_session("main")
    first.set_node(NodePath("/first"), GROUP)
    second.set_node(NodePath("/second"), GROUP)
    first.commit("first", {})
    with pytest.raises(ConflictError):
        second.commit("second", {})
    second.commit("second", {}, rebasing=Rebasing(Policy(), 3))
    assert messages(repository)[:2] == ["second", "first"]
    nodes = repository.readonly_session(Branch("main")).nodes()
    assert [node.path.text for node in nodes] == ["/first", "/second"]


def test_changes_of_the_same_chunk_are_found_without_a_log(
    repository: Repository, place: OnlyCreates
) -> None:
    session = repository.writable_session("main")
    session.set_node(NodePath("/a"), metadata())
    session.set_chunk(NodePath("/a"), (0,), b"0000")
    session.commit("base", {})
    one, other = repository.writable_session("main"), repository.writable_session("main")
    one.set_chunk(NodePath("/a"), (0,), b"1111")
    other.set_chunk(NodePath("/a"), (0,), b"2222")
    one.commit("one", {})
    with pytest.raises(ConflictError) as caught:
        other.commit("other", {}, rebasing=Rebasing(Policy(), 3))
    assert "1 conflicts" in str(caught.value)
    newer, older = [record.id for record in repository.ancestry(Branch("main"))][:2]
    found = Repository.open(place).diff(older, newer)
    assert {str(path): index.tolist() for path, index in found.updated_chunks.items()} == {
        "/a": [[0]]
    }


@pytest.mark.usefixtures("repository")
def test_many_who_commit_at_once_lose_nothing(place: OnlyCreates) -> None:
    def work(worker: int) -> None:
        mine = Repository.open(place)
        for turn in range(5):
            session = mine.writable_session("main")
            session.set_node(NodePath(f"/{worker}-{turn}"), GROUP)
            session.commit(f"{worker}-{turn}", {}, rebasing=Rebasing(Policy(), 100))

    with ThreadPoolExecutor(6) as pool:
        list(pool.map(work, range(6)))
    again = Repository.open(place)
    made = {f"{worker}-{turn}" for worker in range(6) for turn in range(5)}
    assert set(messages(again)[:-1]) == made
    assert len(messages(again)) == 31
    nodes = again.readonly_session(Branch("main")).nodes()
    assert {node.path.text[1:] for node in nodes} == made
    assert len(keys(place, MAIN[again.generation])) == 31


def test_of_many_that_create_a_repository_one_does() -> None:
    place = OnlyCreates(MemoryStore())

    def create(_: int) -> bool:
        try:
            Repository.create(place, generation=Generation.A2E, check_clean_root=False)
        except ConflictError:
            return False
        return True

    with ThreadPoolExecutor(4) as pool:
        assert sum(pool.map(create, range(4))) == 1
    assert messages(Repository.open(place)) == ["Repository initialized"]


def test_a_commit_whose_answer_was_lost_is_done(repository: Repository, place: OnlyCreates) -> None:
    place.lost = 1
    add_group(repository, "/a")
    assert messages(repository)[0] == "add /a"
    assert len(messages(repository)) == 2


def test_a_tag_is_made_once(repository: Repository) -> None:
    first, second = add_group(repository, "/"), add_group(repository, "/a")
    repository.create_tag("v1", first)
    with pytest.raises(AlreadyExistsError):
        repository.create_tag("v1", second)
    assert repository.tags() == {"v1": first}


def test_a_branch_goes_anywhere_by_another_file(repository: Repository, place: OnlyCreates) -> None:
    first, second = add_group(repository, "/"), add_group(repository, "/a")
    repository.reset_branch("main", first)
    assert repository.lookup_branch("main") == first
    with pytest.raises(ConflictError):
        repository.reset_branch("main", first, expected=second)
    third = add_group(repository, "/b")
    assert [record.id for record in repository.ancestry(Branch("main"))][:2] == [third, first]
    assert len(keys(place, MAIN[repository.generation])) == 5


def test_what_the_documents_do_not_have_is_refused(repository: Repository) -> None:
    tip = add_group(repository, "/")
    repository.create_branch("dev", tip)
    repository.create_tag("v1", tip)
    acts: list[Callable[[], None]] = [
        lambda: repository.delete_branch("dev"),
        lambda: repository.delete_tag("v1"),
        repository.save_config,
        lambda: repository.set_metadata({"a": 1}),
    ]
    for act in acts:
        with pytest.raises(FormatError, match="frazil migrate"):
            act()
    with pytest.raises(FormatError):
        repository.rearrange_session("main")
    assert repository.branches().keys() == {"main", "dev"}
    with pytest.raises(InvalidInputError):
        repository.create_branch("a/b", tip)
    with pytest.raises(InvalidInputError):
        repository.create_tag("a/b", tip)


def test_metadata_that_could_not_be_read_again_is_refused_at_once(repository: Repository) -> None:
    session = repository.writable_session("main")
    document = json.loads(metadata())
    document["data_type"] = {"name": "numpy.datetime64", "configuration": {"unit": "s"}}
    with pytest.raises(InvalidInputError, match="cannot be stored"):
        session.set_node(NodePath("/a"), json.dumps(document).encode())
    assert session.find_node(NodePath("/a")) is None


def test_virtual_chunks_are_kept_without_checksums(
    repository: Repository, place: OnlyCreates
) -> None:
    session = repository.writable_session("main")
    session.set_node(NodePath("/a"), metadata())
    refs = ChunkRefs.from_payloads([[0], [1]], [Virtual("s3://b/x", 1, 4), Inline(b"1234")])
    session.set_chunk_refs(NodePath("/a"), refs)
    session.commit("virtual", {})
    [found] = Repository.open(place).readonly_session(Branch("main")).chunk_refs(NodePath("/a"))
    assert [found.payload(row) for row in range(2)] == [refs.payload(row) for row in range(2)]
    session = repository.writable_session("main")
    checked = ChunkRefs.from_payloads([[0]], [Virtual("s3://b/x", 1, 4, LastModified(5))])
    session.set_chunk_refs(NodePath("/a"), checked)
    with pytest.raises(InvalidInputError, match="checksums"):
        session.commit("checked", {})


def test_an_array_may_have_several_manifests(place: OnlyCreates) -> None:
    rules = ManifestSplittingConfig.from_dict(
        {ManifestSplitCondition.AnyArray(): {ManifestSplitDimCondition.Any(): 50}}
    )
    split = RepositoryConfig(manifest=ManifestConfig(splitting=rules))
    repository = Repository.create(place, split, generation=Generation.A2E)
    session = repository.writable_session("main")
    session.set_node(NodePath("/a"), metadata(400))
    index = np.arange(200, dtype=np.uint32).reshape(-1, 1)
    session.set_chunk_refs(
        NodePath("/a"), ChunkRefs.from_payloads(index, [Inline(b"%04d" % at) for at in range(200)])
    )
    session.commit("whole", {})
    assert len(keys(place, "manifests/")) == 4
    found = Repository.open(place).readonly_session(Branch("main"))
    array = found.node(NodePath("/a")).array
    assert array is not None
    assert [ref.extents for ref in array.manifests] == [
        ((at, at + 50),) for at in (0, 50, 100, 150)
    ]
    assert found.fetch_chunk(NodePath("/a"), (137,)) == b"0137"


def test_times_lead_to_snapshots(repository: Repository) -> None:
    first, second = add_group(repository, "/"), add_group(repository, "/a")
    when = {record.id: record.flushed_at_us for record in repository.ancestry(Branch("main"))}
    for wanted in (first, second):
        session = repository.readonly_session(BranchAsOf("main", when[wanted]))
        assert session.snapshot_id == wanted


def test_sessions_and_repositories_can_be_sent(repository: Repository) -> None:
    add_group(repository, "/a")
    session = pickle.loads(pickle.dumps(repository.readonly_session(Branch("main"))))
    assert session.find_node(NodePath("/a")) is not None
    again = pickle.loads(pickle.dumps(repository))
    assert again.generation is repository.generation
    add_group(again, "/b")
    assert messages(repository)[0] == "add /b"


def test_forks_come_back(repository: Repository) -> None:
    session = repository.writable_session("main")
    session.set_node(NodePath("/a"), metadata())
    elsewhere = pickle.loads(pickle.dumps(fork(session)))
    elsewhere.set_chunk(NodePath("/a"), (1,), b"1234")
    merge(session, [elsewhere])
    session.commit("merged", {})
    assert repository.readonly_session(Branch("main")).fetch_chunk(NodePath("/a"), (1,)) == b"1234"


def test_nodes_are_numbered_at_random_and_never_alike(repository: Repository) -> None:
    session = repository.writable_session("main")
    for number in range(200):
        session.set_node(NodePath(f"/{number}"), GROUP)
    session.commit("many", {})
    ids = repository.readonly_session(Branch("main"))
    numbers = {node.id.raw for node in ids.nodes()}
    assert len(numbers) == 200
    assert all(raw[:4] == bytes(4) for raw in numbers)


def test_a_place_without_a_repository_is_found_out(place: OnlyCreates) -> None:
    with pytest.raises(RepositoryNotFoundError):
        Repository.open(place)
    assert not Repository.exists(place)
    place.put("refs/branch.other/ZZZZZZZZ.json", b"{}")
    place.put("r/x/y", b"")
    with pytest.raises(RepositoryNotFoundError):
        Repository.open(place)


def test_a_place_that_cannot_list_has_no_old_repository(place: OnlyCreates) -> None:
    """A web server, for example; version 2 needs no listing to be read."""
    place.can_list = False
    with pytest.raises(RepositoryNotFoundError):
        Repository.open(place)


def test_an_old_repository_exists(repository: Repository, place: OnlyCreates) -> None:
    assert Repository.exists(place)
    assert Repository.fetch_spec_version(place) == 1
    assert Repository.fetch_config(place) is None
    with pytest.raises(RefNotFoundError):
        repository.lookup_branch("none")
    with pytest.raises(ObjectNotFoundError):
        repository.lookup_snapshot(SnapshotId(bytes(12)))
