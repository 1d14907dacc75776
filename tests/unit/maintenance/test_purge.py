"""Things taken out of all history: no object has them any more, and all else is as before."""

import json
from dataclasses import replace

import numpy as np
import pytest

from frazil.engine.files.object_keys import CHUNKS, MANIFESTS, OVERWRITTEN, SNAPSHOTS, TRANSACTIONS
from frazil.engine.merge.rebase import Rebasing
from frazil.engine.merge.solver import Policy
from frazil.engine.refs.version import Branch
from frazil.engine.repository import Repository
from frazil.errors import ConflictError, FormatError, InvalidInputError, SnapshotNotFoundError
from frazil.format.chunk_refs import ChunkRefs
from frazil.format.envelope import decode_envelope, decode_header
from frazil.format.manifest import Manifest
from frazil.format.nodes import ManifestRef
from frazil.ids import ManifestId, SnapshotId
from frazil.maintenance.pack import pack, plan_pack
from frazil.maintenance.purge.purge_message import plan_purge_messages, purge_messages
from frazil.maintenance.purge.purge_path import plan_purge_path, purge_path
from frazil.objectstore.memory import MemoryStore
from frazil.objectstore.protocol import ObjectStore
from frazil.paths import NodePath
from tests.unit.maintenance.contents import Contents, contents_of, history_of, keys
from tests.unit.spec.written import GROUP, array_metadata, split_every

HIDDEN, OPEN, DEEP = map(NodePath, ("/g/hidden", "/g/open", "/g/hidden/deep"))
SECRET = b"TOPSECRET"
FILE = "s3://bucket/confidential"


def consolidated(*names: str) -> bytes:
    said = {name: {"attributes": {"note": SECRET.decode()}} for name in names}
    return json.dumps({**json.loads(GROUP), "consolidated_metadata": {"metadata": said}}).encode()


@pytest.fixture(params=[1, 2])
def repository(request: pytest.FixtureRequest) -> Repository:
    """The path is in three of five snapshots, on two branches and a tag."""
    repository = Repository.create(MemoryStore(), split_every(2), spec_version=request.param)
    session = repository.writable_session("main")
    session.set_node(NodePath("/"), consolidated("g/hidden", "g/hidden/deep"))
    session.set_node(NodePath("/g"), GROUP)
    session.set_node(OPEN, array_metadata((6,), (1,)))
    session.set_chunk(OPEN, (0,), b"open" * 10)
    session.commit("first")
    session = repository.writable_session("main")
    attributes = {"note": SECRET.decode()}
    session.set_node(HIDDEN, GROUP)
    session.set_node(DEEP, array_metadata((6,), (1,), attributes=attributes))
    session.set_chunk(DEEP, (0,), SECRET * 5)
    session.set_chunk(DEEP, (1,), SECRET)  # inline
    session.set_chunk_refs(DEEP, ChunkRefs.virtual([[2]], [FILE], 0, 10))
    session.commit("about /g/hidden/deep", {"why": SECRET.decode()})
    repository.create_tag("tagged", repository.lookup_branch("main"))
    repository.create_branch("other", repository.lookup_branch("main"))
    session = repository.writable_session("main")
    session.set_chunk(DEEP, (0,), SECRET * 6)
    session.set_chunk(OPEN, (1,), b"more" * 10)
    session.commit("third")
    session = repository.writable_session("main")
    session.delete_node(HIDDEN)
    session.commit("deleted")
    return repository


def found_in(store: ObjectStore, text: bytes) -> set[str]:
    """Keys of the objects that have it in them, decompressed."""
    found = set()
    for info in store.list():
        data = bytes(store.get(info.key).data)
        if data.startswith(b"ICE"):
            data = bytes(decode_envelope(data, decode_header(data).file_type).data)
        if text in data:
            found.add(info.key)
    return found


def without_hidden(contents: Contents) -> Contents:
    kept = {path: node for path, node in contents.items() if not path.startswith(HIDDEN.text)}
    if "/" in kept:
        root = json.dumps({**json.loads(GROUP), "consolidated_metadata": {"metadata": {}}})
        kept["/"] = (root.encode(), kept["/"][1])
    return kept


def test_a_path_is_in_no_object_any_more_and_all_else_is_as_it_was(
    repository: Repository,
) -> None:
    before = history_of(repository)
    branches, tags = repository.branches(), repository.tags()
    assert found_in(repository.store, SECRET)
    plan = plan_purge_path(repository, HIDDEN)
    done = purge_path(repository, plan, "as the law wants it")
    after = history_of(repository)
    assert {each: after[each] for each in before} == {
        each: without_hidden(contents) for each, contents in before.items()
    }
    assert repository.tags() == tags
    assert done.commits.keys() == {"main", "other"}
    tips = {name: str(tip) for name, tip in branches.items()}
    now = {name: str(tip) for name, tip in repository.branches().items()}
    assert now == {**tips, **done.commits}
    told = found_in(repository.store, SECRET) | found_in(repository.store, b"/g/hidden")
    told |= found_in(repository.store, FILE.encode())
    mentions = found_in(repository.store, b"about ")  # the message and metadata of one commit
    assert told <= mentions
    purge_messages(
        repository,
        plan_purge_messages(repository, list(before), replacement="-", with_metadata=True),
    )
    for text in (SECRET, b"/g/hidden", FILE.encode(), b"about "):
        assert found_in(repository.store, text) == set()


@pytest.mark.parametrize("is_deleted", [False, True])
def test_later_snapshots_have_nothing_of_what_was_replaced_or_deleted(*, is_deleted: bool) -> None:
    """They are written with what was encoded before."""
    repository = Repository.create(MemoryStore())
    others = [NodePath(f"/other{number}") for number in range(9)]

    def commit(changed: NodePath, note: bytes | None) -> str:
        session = repository.writable_session("main")
        if note is None:
            session.delete_node(changed)
        else:
            attributes = {"note": note.decode()}
            session.set_node(changed, array_metadata((6,), (1,), attributes=attributes))
        return f"{SNAPSHOTS}{session.commit('change')}"

    for path in others:
        commit(path, b"open")
    kept = [commit(others[3], b"open too"), commit(HIDDEN, SECRET), commit(others[4], b"open too")]
    later = [commit(HIDDEN, None if is_deleted else b"nothing"), commit(others[5], b"open too")]
    where = {key for key in found_in(repository.store, SECRET) if key.startswith(SNAPSHOTS)}
    assert where == {*kept[1:]}
    purge_path(repository, plan_purge_path(repository, HIDDEN))
    assert found_in(repository.store, SECRET) == set()
    assert found_in(repository.store, HIDDEN.text.encode()) == set()
    assert {*kept, *later} <= {info.key for info in repository.store.list(SNAPSHOTS)}


def test_what_was_purged_is_told_by_the_plan(repository: Repository) -> None:
    stored = keys(repository.store, "")
    plan = plan_purge_path(repository, HIDDEN)
    assert keys(repository.store, "") == stored
    assert [node.path for node in plan.nodes] == [HIDDEN, DEEP]
    assert (len(plan.snapshots), len(plan.logs), plan.branches) == (4, 3, ("main", "other"))
    assert (len(plan.chunks), plan.chunk_bytes) == (2, 11 * len(SECRET))
    assert len(plan.manifests) == 3
    kinds = {(each.kind, each.place) for each in plan.remaining}
    (commit,) = (place for kind, place in kinds if kind == "message")
    assert kinds == {
        ("message", commit),
        ("tag", "tagged"),
        ("virtual-file", FILE),
        ("elsewhere", "copies"),
    }
    assert repository.lookup_snapshot(SnapshotId.parse(commit)).message == "about /g/hidden/deep"
    purge_path(repository, plan)
    assert plan_purge_path(repository, HIDDEN).is_empty
    assert keys(repository.store, CHUNKS).isdisjoint(
        stored - keys(repository.store, CHUNKS) - keys(repository.store, MANIFESTS)
    )
    assert len(stored & keys(repository.store, CHUNKS)) == len(
        {key for key in stored if key.startswith(CHUNKS)}
    ) - len(plan.chunks)


def test_chunks_that_other_arrays_use_stay(repository: Repository) -> None:
    session = repository.writable_session("other")
    shared = session.chunk_payload(DEEP, (0,))
    assert shared is not None
    session.set_chunk_refs(OPEN, ChunkRefs.from_payloads([[5]], [shared]))
    session.commit("a copy")
    plan = plan_purge_path(repository, HIDDEN)
    assert len(plan.chunks) == 1
    assert "shared-chunks" in {each.kind for each in plan.remaining}
    purge_path(repository, plan)
    reading = repository.readonly_session(Branch("other"))
    assert reading.fetch_chunk(OPEN, (5,)) == SECRET * 5


def test_chunks_in_packs_that_others_use_are_blanked(repository: Repository) -> None:
    pack(repository, plan_pack(repository, "other", small_bytes=100, pack_bytes=1000))
    plan = plan_purge_path(repository, HIDDEN)
    assert (len(plan.blanked), plan.blanked.bytes) == (1, 5 * len(SECRET))
    assert (len(plan.chunks), plan.chunk_bytes) == (2, 16 * len(SECRET))
    assert "shared-chunks" not in {each.kind for each in plan.remaining}
    before = {each.key: each.size_bytes for each in repository.store.list(CHUNKS)}
    purge_path(repository, plan)
    assert not {key for key in found_in(repository.store, SECRET) if key.startswith(CHUNKS)}
    for each in repository.store.list(CHUNKS):
        assert each.size_bytes == before[each.key]
    opened = Repository.open(repository.store)
    assert opened.readonly_session(Branch("other")).fetch_chunk(OPEN, (0,)) == b"open" * 10


def test_arrays_that_share_a_manifest_part_with_it(repository: Repository) -> None:
    """No writer of today makes such manifests, and readers take them all the same."""
    session = repository.writable_session("other")
    open_node, deep_node = session.node(OPEN), session.node(DEEP)
    refs = {
        open_node.id: ChunkRefs.from_payloads([[0], [1]], [session.chunk_payload(OPEN, (0,))] * 2),  # type: ignore[list-item]  # it is there
        deep_node.id: ChunkRefs.concat(list(session.chunk_refs(DEEP))),
    }
    file = session.files.put_manifest(Manifest(ManifestId.random(), refs))
    nodes = session.base.nodes.patched(
        remove=[],
        put=[
            replace(node, array=replace(node.array, manifests=(ManifestRef(file.id, ((0, 6),)),)))
            for node in (open_node, deep_node)
            if node.array is not None
        ],
    )
    session.files.put_snapshot(replace(session.base, nodes=nodes, manifest_files=(file,)))
    plan = plan_purge_path(repository, HIDDEN)
    assert plan.shared_manifests == (file.id,)
    purge_path(repository, plan)
    reading = repository.readonly_session(Branch("other"))
    assert reading.fetch_chunk(OPEN, (1,)) == b"open" * 10
    assert found_in(repository.store, FILE.encode()) == set()
    assert not {each for each in found_in(repository.store, SECRET) if each.startswith(MANIFESTS)}


@pytest.mark.parametrize("repository", [2], indirect=True)  # version 1 has no moves
def test_moves_from_and_to_the_path_are_forgotten(repository: Repository) -> None:
    session = repository.rearrange_session("other")
    session.move(DEEP, NodePath("/public"))
    moved = session.commit("moved")
    session = repository.rearrange_session("other")
    session.move(OPEN, NodePath("/g/hidden/open"))
    session.commit("moved there")
    plan = plan_purge_path(repository, HIDDEN)
    assert ("moved-node", "/public") in {(each.kind, each.place) for each in plan.remaining}
    purge_path(repository, plan)
    assert set(contents_of(repository, Branch("other"))) == {"/", "/g", "/public"}
    reading = repository.readonly_session(Branch("other"))
    assert reading.fetch_chunk(NodePath("/public"), (0,)) == SECRET * 5
    diff = repository.diff(repository.lookup_tag("tagged"), moved)
    assert (set(diff.new_arrays), diff.moved) == ({NodePath("/public")}, ())
    assert not {
        key for key in found_in(repository.store, b"/g/hidden") if key.startswith("transactions")
    }


def test_a_session_that_began_before_does_not_bring_it_back(repository: Repository) -> None:
    session = repository.writable_session("other")
    session.set_chunk(OPEN, (3,), b"late" * 10)
    purge_path(repository, plan_purge_path(repository, HIDDEN))
    with pytest.raises(ConflictError):
        session.commit("stale")
    session.commit("rebased", rebasing=Rebasing(Policy()))
    assert set(contents_of(repository, Branch("other"))) == {"/", "/g", "/g/open"}
    assert plan_purge_path(repository, HIDDEN).is_empty


def test_files_of_a_commit_that_a_power_failure_cut_off_are_passed_over(
    repository: Repository,
) -> None:
    store, cut_off = repository.store, "0" * 20
    for folder in (SNAPSHOTS, TRANSACTIONS, MANIFESTS):
        whole = store.get(next(iter(store.list(folder))).key).data
        store.put(folder + cut_off, whole[: len(whole) // 2])
    purge_path(repository, plan_purge_path(repository, HIDDEN))
    assert plan_purge_path(repository, HIDDEN).is_empty


def test_a_damaged_snapshot_that_is_listed_stops_a_purge(repository: Repository) -> None:
    key = SNAPSHOTS + str(repository.lookup_branch("main"))
    repository.store.put(key, bytes(repository.store.get(key).data)[:-20])
    with pytest.raises(FormatError):
        plan_purge_path(repository, HIDDEN)


def test_names_that_were_read_before_are_forgotten(repository: Repository) -> None:
    again = Repository.open(repository.store)
    _, third, *_ = (each.id for each in again.ancestry(Branch("main")))
    assert HIDDEN.text in again.files.fetch_node_names(third).paths.to_texts()
    purge_path(again, plan_purge_path(again, HIDDEN))
    assert again.files.fetch_node_names(third).paths.to_texts() == ["/", "/g", "/g/open"]


def test_what_is_committed_again_meanwhile_is_purged_too(repository: Repository) -> None:
    plan = plan_purge_path(repository, HIDDEN)
    session = repository.writable_session("main")
    session.set_node(HIDDEN, array_metadata((6,), (1,)))
    session.set_chunk(HIDDEN, (0,), SECRET * 8)
    session.commit("again")
    purge_path(repository, plan)
    assert set(contents_of(repository)) == {"/", "/g", "/g/open"}
    assert plan_purge_path(repository, HIDDEN).is_empty
    assert not {key for key in found_in(repository.store, SECRET) if key.startswith(CHUNKS)}


def test_a_snapshot_that_no_branch_leads_to_is_purged_too(repository: Repository) -> None:
    session = repository.writable_session("other")
    session.set_chunk(DEEP, (4,), SECRET * 9)
    detached = session.flush("detached")
    purge_path(repository, plan_purge_path(repository, HIDDEN))
    found = repository.files.fetch_snapshot(detached)
    assert [node.path.text for node in found.nodes] == ["/", "/g", "/g/open"]


def test_a_path_that_never_was_is_no_work(repository: Repository) -> None:
    stored = {key: repository.store.get(key).data for key in keys(repository.store, "")}
    plan = plan_purge_path(repository, NodePath("/g/hid"))
    assert plan.is_empty
    assert purge_path(repository, plan).commits == {}
    assert {key: repository.store.get(key).data for key in keys(repository.store, "")} == stored


def test_the_root_cannot_be_purged(repository: Repository) -> None:
    with pytest.raises(InvalidInputError, match="root"):
        plan_purge_path(repository, NodePath("/"))


def test_the_commit_may_not_name_what_is_purged(repository: Repository) -> None:
    plan = plan_purge_path(repository, HIDDEN)
    with pytest.raises(InvalidInputError, match="names"):
        purge_path(repository, plan, "Purge /g/hidden")


def test_attributes_that_name_it_are_told(repository: Repository) -> None:
    session = repository.writable_session("main")
    attributes = {"coordinates": "/g/hidden"}
    session.set_node(OPEN, array_metadata((6,), (1,), attributes=attributes))
    session.commit("names it")
    plan = plan_purge_path(repository, HIDDEN)
    assert ("attributes", "/g/open") in {(each.kind, each.place) for each in plan.remaining}


def test_what_was_put_aside_is_told(repository: Repository) -> None:
    repository.store.put(f"{OVERWRITTEN}damaged.snapshot", SECRET)
    plans = (
        plan_purge_path(repository, HIDDEN),
        plan_purge_messages(repository, [second(repository)]),
    )
    for plan in plans:
        told = {each.place for each in plan.remaining if each.kind == "backup"}
        assert told == {"overwritten/damaged.snapshot"}


def second(repository: Repository) -> SnapshotId:
    return repository.lookup_tag("tagged")


def test_a_message_is_in_no_object_any_more(repository: Repository) -> None:
    before = history_of(repository)
    commit = second(repository)
    text = b"about /g/hidden"
    assert len(found_in(repository.store, text)) > (1 if repository.spec_version == 2 else 0)
    plan = plan_purge_messages(repository, [commit])
    purge_messages(repository, plan)
    assert found_in(repository.store, text) == set()
    assert history_of(repository) == before
    for opened in (repository, Repository.open(repository.store)):
        assert opened.lookup_snapshot(commit).message == "(redacted)"
        assert opened.lookup_snapshot(commit).metadata == {"why": SECRET.decode()}
    assert plan_purge_messages(repository, [commit]).is_empty


@pytest.mark.parametrize("repository", [2], indirect=True)  # version 1 has no ops log
def test_backups_are_rewritten_and_the_ops_log_goes_on(repository: Repository) -> None:
    log, backups = list(repository.ops_log()), keys(repository.store, OVERWRITTEN)
    plan = plan_purge_messages(repository, [second(repository)], with_metadata=True)
    assert plan.listed
    assert 0 < len(plan.backups) < len(backups)
    purge_messages(repository, plan)
    assert backups < keys(repository.store, OVERWRITTEN)
    assert [each.kind for each in repository.ops_log()][1:] == [each.kind for each in log]
    assert repository.lookup_snapshot(second(repository)).metadata == {}


def test_other_commits_that_tell_of_it_are_told(repository: Repository) -> None:
    message = repository.lookup_snapshot(second(repository)).message
    session = repository.writable_session("main")
    session.set_node(NodePath("/x"), GROUP)
    told = session.commit(f"Revert {message!r}")
    plan = plan_purge_messages(repository, [second(repository)])
    assert ("message", str(told)) in {(each.kind, each.place) for each in plan.remaining}


def test_a_replacement_with_the_message_in_it_is_refused(repository: Repository) -> None:
    with pytest.raises(InvalidInputError, match="replacement"):
        plan_purge_messages(
            repository, [second(repository)], replacement="not about /g/hidden/deep any more"
        )


def test_a_commit_that_is_not_there_is_an_error(repository: Repository) -> None:
    with pytest.raises(SnapshotNotFoundError):
        plan_purge_messages(repository, [SnapshotId(np.full(12, 7, np.uint8).tobytes())])
