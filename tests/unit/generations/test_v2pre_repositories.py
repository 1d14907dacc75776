"""Repositories of version 2 from before its release: refs, history and data can be read."""

import pytest

from frazil.clock import system_clock
from frazil.engine.refs.version import Branch, Tag
from frazil.engine.repository import Repository
from frazil.errors import ConflictError, FormatError
from frazil.flatbuf.columns import ScalarColumn, StringColumn, StringVectorColumn
from frazil.flatbuf.encode import encode_parts
from frazil.flatbuf.schema import Field, Scalar, String, StringVector, TableSchema, TableVector
from frazil.flatbuf.table import Column, Table, TableVectorColumn
from frazil.format.envelope import FileType, encode_envelope
from frazil.format.generation import Generation
from frazil.format.repo_info import RepoInfo
from frazil.format.schemas import IDENTIFIER, REF, SNAPSHOT_INFO
from frazil.maintenance.migrate.migration import migrate, plan_migration
from frazil.objectstore.memory import MemoryStore
from frazil.paths import NodePath
from tests.unit.engine.conftest import GROUP, array_metadata

THEN_US = 1_756_000_000_000_000  # August 2025


def early(info: RepoInfo, *, first: int, deleted: str = "gone", at_us: int = THEN_US) -> bytes:
    """The entry point with its refs in the slots from `first` on, and a time after them."""
    refs = [("tags", info.tags), ("branches", info.branches)]
    fields = [Field(name, first + at, TableVector(REF)) for at, (name, _) in enumerate(refs)]
    fields += [
        Field("deleted_tags", first + 2, StringVector()),
        Field("snapshots", first + 3, TableVector(SNAPSHOT_INFO)),
        Field("last_updated_at", 5, Scalar("u8")),
        Field("previous_file", 8, String()),
    ]
    columns: dict[str, Column] = {
        name: TableVectorColumn.of(
            Table.build(
                REF,
                len(rows),
                name=StringColumn.from_list(sorted(rows)),
                snapshot_index=ScalarColumn.of([rows[each] for each in sorted(rows)], "u4"),
            )
        )
        for name, rows in refs
    }
    columns |= {
        "deleted_tags": StringVectorColumn.from_lists([[deleted.encode()]]),
        "snapshots": TableVectorColumn.of(info.snapshots.table),
        "last_updated_at": ScalarColumn.of([at_us], "u8"),
        "previous_file": StringColumn.from_list(["repo.1.A"]),
    }
    root = Table.build(TableSchema("Repo", tuple(fields)), 1, **columns)
    return encode_envelope(encode_parts(root, identifier=IDENTIFIER), FileType.REPO_INFO)


@pytest.fixture(params=[0, 1])
def store(request: pytest.FixtureRequest) -> MemoryStore:
    place = MemoryStore()
    made = Repository.create(place, clock=system_clock)
    session = made.writable_session("main")
    session.set_node(NodePath("/"), GROUP)
    session.set_node(NodePath("/a"), array_metadata(4))
    session.set_chunk(NodePath("/a"), (1,), b"1234")
    made.create_tag("v1", session.commit("data", {}))
    deleted = "tag.gone/ref.json.deleted" if request.param else "gone"
    place.put("repo", early(made.repo_info(), first=request.param, deleted=deleted))
    return place


def test_refs_history_and_data_are_read(store: MemoryStore) -> None:
    repository = Repository.open(store)
    assert repository.generation is Generation.V2PRE
    assert repository.spec_version == 2
    history = [record.message for record in repository.ancestry(Branch("main"))]
    assert history == ["data", "Repository initialized"]
    session = repository.readonly_session(Tag("v1"))
    assert session.fetch_chunk(NodePath("/a"), (1,)) == b"1234"
    assert repository.repo_info().deleted_tags == ("gone",)
    assert Repository.fetch_spec_version(store) == 2
    assert repository.manifest_files(session.snapshot_id)


def test_nothing_is_written(store: MemoryStore) -> None:
    repository, before = Repository.open(store), store.get("repo").data
    with pytest.raises(FormatError, match="frazil migrate"):
        repository.writable_session("main")
    with pytest.raises(FormatError, match="frazil migrate"):
        repository.create_tag("v2", repository.lookup_branch("main"))
    with pytest.raises(FormatError, match="frazil migrate"):
        repository.store.put("chunks/x", b"")
    assert store.get("repo").data == before


def test_the_configuration_is_in_a_file(store: MemoryStore) -> None:
    store.put("config.yaml", b"inline_chunk_threshold_bytes: 7\n")
    assert Repository.open(store).config.inline_chunk_threshold_bytes == 7


def test_a_damaged_file_is_not_taken_for_an_early_one(store: MemoryStore) -> None:
    info = Repository.open(store).repo_info()
    store.put("repo", early(info, first=1, at_us=5))
    with pytest.raises(FormatError):
        Repository.open(store)


def test_a_change_since_the_plan_of_a_migration_is_not_overwritten(store: MemoryStore) -> None:
    plan = plan_migration(Repository.open(store))
    changed = early(Repository.open(store).repo_info(), first=1, deleted="another")
    store.put("repo", changed)
    with pytest.raises(ConflictError):
        migrate(plan)
    assert store.get("repo").data == changed


@pytest.mark.parametrize(
    ("now_us", "expected"), [(1_771_000_000_000_000, 7), (1_790_000_000_000_000, 512)]
)
def test_a_configuration_beside_version_2_counts_until_its_release(
    now_us: int, expected: int
) -> None:
    """In February 2026 the entry point had no place for it yet."""
    store = MemoryStore()
    Repository.create(store, clock=lambda: now_us)
    store.put("config.yaml", b"inline_chunk_threshold_bytes: 7\n")
    opened = Repository.open(store)
    assert opened.generation is Generation.V2
    assert (opened.config.inline_chunk_threshold_bytes or 512) == expected
