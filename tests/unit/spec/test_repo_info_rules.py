import re
from collections.abc import Callable
from dataclasses import replace

import pytest

from frazil.engine.repository import Repository
from frazil.errors import AlreadyExistsError, ConflictError, SessionStateError
from frazil.flatbuf.decode import decode
from frazil.format.envelope import FileType, decode_envelope
from frazil.format.repo_info import encode_repo_info
from frazil.format.schemas import REPO
from frazil.ids import INITIAL_SNAPSHOT
from frazil.objectstore.memory import MemoryStore
from frazil.objectstore.protocol import Data
from frazil.paths import NodePath
from tests.unit.spec.written import GROUP, Written, is_ascending, raw_rows

YEAR_3000_MS = 32_503_680_000_000


@pytest.fixture
def repository() -> Repository:
    return Repository.create(MemoryStore())


@pytest.mark.parametrize("field", ["tags", "branches"])
def test_refs_ascend_by_the_bytes_of_their_names(written: Written, field: str) -> None:
    names = written.table("repo").tables(field).rows.string("name").to_list()
    assert len(names) > 3
    assert is_ascending(names)


def test_deleted_tags_ascend_by_the_bytes_of_their_names(written: Written) -> None:
    names = written.table("repo").strings("deleted_tags").row(0)
    assert names == [name.encode() for name in ("gone-Alpha", "gone-mu", "gone-zeta", "gone-é")]


def test_snapshots_ascend_by_id(written: Written) -> None:
    ids = raw_rows(written.table("repo").tables("snapshots").rows.struct("id").values)
    assert len(ids) == 3
    assert is_ascending(ids)


def test_feature_flags_ascend(written: Written) -> None:
    info = replace(
        written.repository.repo_info(), enabled_flags=(9, 2, 5), disabled_flags=(8, 1, 300)
    )
    payload = decode_envelope(encode_repo_info(info), FileType.REPO_INFO).data
    table = decode(payload, REPO)
    assert table.vector("enabled_feature_flags").row(0).tolist() == [2, 5, 9]
    assert table.vector("disabled_feature_flags").row(0).tolist() == [1, 8, 300]


def test_a_new_repository_has_main_and_it_stays(repository: Repository) -> None:
    assert repository.branches() == {"main": INITIAL_SNAPSHOT}
    with pytest.raises(SessionStateError) as caught:
        repository.delete_branch("main")
    assert caught.value.kind == "cannot-delete-main"
    assert repository.branches() == {"main": INITIAL_SNAPSHOT}


def test_a_tag_cannot_be_pointed_elsewhere(repository: Repository) -> None:
    repository.create_tag("v1", INITIAL_SNAPSHOT)
    session = repository.writable_session("main")
    session.set_node(NodePath("/"), GROUP)
    newer = session.commit("more")
    with pytest.raises(AlreadyExistsError) as caught:
        repository.create_tag("v1", newer)
    assert caught.value.kind == "tag-already-exists"
    assert repository.lookup_tag("v1") == INITIAL_SNAPSHOT


def test_a_tag_once_deleted_cannot_be_created_again(repository: Repository) -> None:
    repository.create_tag("v1", INITIAL_SNAPSHOT)
    repository.delete_tag("v1")
    with pytest.raises(AlreadyExistsError) as caught:
        repository.create_tag("v1", INITIAL_SNAPSHOT)
    assert caught.value.kind == "tag-previously-deleted"


def test_a_commit_notices_that_the_branch_has_moved(repository: Repository) -> None:
    ours, theirs = (repository.writable_session("main") for _ in range(2))
    for session in (ours, theirs):
        session.set_node(NodePath("/"), GROUP)
    tip = theirs.commit("faster")
    with pytest.raises(ConflictError):
        ours.commit("slower")
    assert repository.lookup_branch("main") == tip


def test_the_old_repo_info_is_copied_before_it_is_replaced(repository: Repository) -> None:
    seen: list[Data] = []
    steps: list[Callable[[], object]] = [
        lambda: repository.create_branch("dev", INITIAL_SNAPSHOT),
        lambda: repository.create_tag("v1", INITIAL_SNAPSHOT),
        lambda: repository.delete_branch("dev"),
    ]
    for step in steps:
        seen.append(repository.store.get("repo").data)
        step()
    backups = [
        repository.store.get(each.key).data for each in repository.store.list("overwritten/")
    ]
    assert sorted(map(bytes, backups)) == sorted(map(bytes, seen))


def test_a_backup_is_named_after_the_time_left_until_the_year_3000() -> None:
    store = MemoryStore()
    ticks = iter(range(1_700_000_000_000_000, 1_800_000_000_000_000, 1_000_000))
    repository = Repository.create(store, clock=lambda: next(ticks))
    repository.create_branch("dev", INITIAL_SNAPSHOT)
    (backup,) = store.list("overwritten/")
    name = re.fullmatch(r"overwritten/repo\.(\d+)\.([0-9A-HJKMNP-TV-Z]{20})", backup.key)
    assert name
    age_ms = YEAR_3000_MS - int(name[1])
    assert 1_700_000_000_000 <= age_ms < 1_700_000_100_000
