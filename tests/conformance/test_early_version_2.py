"""Repositories of version 2 from before its release, of every month: read, verified, migrated."""

import json
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import icechunk
import numpy as np
import pytest
import zarr
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from frazil.api import Repository, Storage, local_filesystem_storage
from frazil.errors import FormatError
from frazil.flatbuf.flexbuffers import Json, encode_flexbuffer
from frazil.format.envelope import FileType, decode_envelope, encode_envelope
from frazil.format.repo_info import decode_repo_info
from frazil.generations.early_v2 import has_early_values
from frazil.generations.v2pre import (
    decode_early_log_page,
    decode_early_repo_info,
    decode_early_snapshot,
    decode_early_values,
    is_early_repo_info,
)
from frazil.objectstore.local import LocalStore
from frazil.objectstore.memory import MemoryStore
from tests.conformance.early_version_2 import FORMS, Form, logged, make_early, pack
from tests.examples_count import scaled
from tests.unit.maintenance.moved import contents, opened

json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(codec="utf-8"), max_size=12),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(
            st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=5),
            inner,
            max_size=3,
        )
    ),
    max_leaves=8,
)
BOTH = [5, 4, 1]  # whose MessagePack is FlexBuffers of 5
names = st.text("abé.-_", min_size=1, max_size=6)
histories = st.fixed_dictionaries(
    {
        "commits": st.lists(st.dictionaries(names, json_values, max_size=2), max_size=2),
        "tags": st.sets(names, max_size=2),
        "deleted": st.sets(names.map("x{}".format), max_size=2),
        "branches": st.sets(names, max_size=2),
        "amends": st.booleans(),
        "resets": st.booleans(),
        "seed": st.integers(0, 2**32 - 1),
    }
)
one_in_ci = settings(
    max_examples=scaled(1), deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
OF_REPOSITORY = {"of": "the repository", "n": BOTH}
FULL = {  # an example that has everything
    "commits": [{"both": BOTH, "é": {"x": None}}],
    "tags": {"t"},
    "deleted": {"xd"},
    "branches": {"b"},
    "amends": True,
    "resets": True,
    "seed": 0,
}


def write(store: Any, history: dict[str, Any]) -> Repository:
    """A repository of version 2 with random contents."""
    rng = np.random.default_rng(history["seed"])
    repo = Repository.create(Storage(store))
    for at, metadata in enumerate([{}, *history["commits"]]):
        session = repo.writable_session("main")
        values = rng.integers(0, 1000, (30, 40))
        array = zarr.create_array(session.store, name=f"g{at}/a", data=values, chunks=(30, 20))
        array.attrs["at"] = at
        zarr.create_array(session.store, name=f"tiny{at}", data=values[0, :2], chunks=(1,))
        if at:
            zarr.open_array(session.store, path="g0/a")[:, 0] = -at
        session.commit(f"commit {at} ✓", metadata=metadata)
    if history["amends"]:
        session = repo.writable_session("main")
        zarr.open_array(session.store, path="tiny0")[0] = 7
        session.amend("amended", metadata={"both": BOTH})
    tip = repo.lookup_branch("main")
    for name in history["tags"] | history["deleted"]:
        repo.create_tag(name, tip)
    for name in history["deleted"] - history["tags"]:
        repo.delete_tag(name)
    for name in history["branches"] - {"main"}:
        repo.create_branch(name, tip)
    if history["resets"]:
        repo.reset_branch("main", next(iter(repo.ancestry(branch="main"))).parent_id or tip)
    repo.update_metadata(OF_REPOSITORY)
    return repo


def theirs(root: Path) -> icechunk.Repository:
    return icechunk.Repository.open(icechunk.local_filesystem_storage(str(root)))


def look(repo: Any, *, ids: bool = True) -> dict[str, Any]:
    """Refs with their histories, and the values of every array of every snapshot."""
    found: dict[str, Any] = {}
    values: dict[str, Any] = {}
    for kind, names in (("branch", repo.list_branches()), ("tag", repo.list_tags())):
        for name in sorted(names):
            history = list(repo.ancestry(**{kind: name}))
            for info in history:
                if info.id not in values:
                    values[info.id] = contents(repo, info.id)
            found[f"{kind} {name}"] = [
                (
                    info.id if ids else None,
                    info.message,
                    info.written_at,
                    json.dumps(info.metadata, sort_keys=True),
                    values[info.id],
                )
                for info in history
            ]
    return found


def check_refusals(repo: Repository) -> None:
    """What would write is refused, and the way out is named."""
    store = repo.storage.store
    before = {info.key: bytes(store.get(info.key).data) for info in store.list()}
    for attempt in (
        lambda: repo.writable_session("main"),
        lambda: repo.create_tag("new", repo.lookup_branch("main")),
        lambda: repo.garbage_collect(datetime.now(UTC)),
        lambda: repo.expire_snapshots(datetime.now(UTC)),
    ):
        with pytest.raises(FormatError, match="migrate"):
            attempt()
    assert repo.repair().steps == ()
    assert {info.key: bytes(store.get(info.key).data) for info in store.list()} == before


def problems_of(repo: Repository) -> list[str]:
    return [str(problem) for problem in repo.verify(decode=True).problems]


@pytest.mark.compat
@pytest.mark.parametrize("form", [form for form in FORMS if not form.is_current], ids=str)
@one_in_ci
@example(FULL)
@given(histories)
def test_early_repositories_are_read_verified_and_migrated_to_what_the_reference_reads(
    form: Form, tmp_path_factory: pytest.TempPathFactory, history: dict[str, Any]
) -> None:
    root = tmp_path_factory.mktemp("early")
    store = LocalStore(root / "old")
    expected = look(write(store, history))
    info = decode_repo_info(store.get("repo").data)
    make_early(store, form)
    store.put("config.yaml", b"inline_chunk_threshold_bytes: 7\n")

    repo = opened(store)
    assert repo.generation == "V2pre"
    assert look(repo) == expected
    assert repo.get_metadata() == OF_REPOSITORY
    assert set(repo.engine.repo_info().deleted_tags) == set(info.deleted_tags)
    kinds = [type(update.kind).__name__ for update in repo.ops_log()]
    assert kinds == [kind for kind in logged(info, form) if kind != "MetadataChanged"]
    assert problems_of(repo) == []
    check_refusals(repo)

    repo.migrate(storage=local_filesystem_storage(root / "copy"))
    assert look(theirs(root / "copy")) == expected
    repo.migrate()
    assert problems_of(opened(root / "old")) == []  # though the old files are still there
    opened(root / "old").confirm_migration()
    assert look(theirs(root / "old"), ids=False) == look(opened(root / "copy"), ids=False)
    for place in ("copy", "old"):
        found = opened(root / place)
        assert found.generation == "V2"
        assert problems_of(found) == []
        assert found.config.inline_chunk_threshold_bytes == 7
        assert found.get_metadata() == OF_REPOSITORY
        assert set(found.engine.repo_info().deleted_tags) == set(info.deleted_tags)
        assert len(list(theirs(root / place).ops_log())) == len(list(found.ops_log())) > 0


@pytest.mark.compat
@pytest.mark.parametrize("form", [form for form in FORMS if form.is_current], ids=str)
@one_in_ci
@example(FULL)
@given(histories)
def test_those_of_2026_are_of_version_2_and_a_repair_makes_them_what_the_reference_reads(
    form: Form, tmp_path_factory: pytest.TempPathFactory, history: dict[str, Any]
) -> None:
    root = tmp_path_factory.mktemp("early")
    store = LocalStore(root)
    expected = look(write(store, history))
    info = decode_repo_info(store.get("repo").data)
    make_early(store, form)
    repo = opened(store)
    assert repo.generation == "V2"
    assert look(repo) == expected
    assert set(repo.engine.repo_info().deleted_tags) == set(info.deleted_tags)
    kinds = {each.kind for each in repo.verify(decode=True).problems}
    assert kinds <= {"manifest-list-version", "manifest-unlisted", "shape-version"}
    repo.garbage_collect(datetime.now(UTC))
    assert look(opened(store)) == expected
    with repo.transaction("main", message="more") as zarr_store:
        zarr.create_array(zarr_store, name="more", data=np.arange(9))
    repo.repair()
    assert problems_of(opened(store)) == []
    assert look(theirs(root)) == look(opened(store)) != expected


def written(values: list[Json]) -> str:
    """As JSON, which tells 1 from 1.0 and from true."""
    return json.dumps(values, sort_keys=True)


@given(st.lists(json_values, max_size=6), st.booleans())
@example([BOTH, 5], False)
def test_the_values_of_a_repository_are_never_taken_for_others(
    values: list[Json],
    packed_first: bool,  # noqa: FBT001 -- drawn
) -> None:
    """Every repository has a value that only one of the encodings can be: that of its root."""
    values = [*values, True]
    for encode in (pack, encode_flexbuffer):
        found = decode_early_values([encode(each) for each in values], packed_first=packed_first)
        assert written(found) == written(values)


@given(st.lists(json_values, max_size=6))
@example([BOTH, BOTH])
def test_values_that_may_be_either_are_what_the_month_wrote(values: list[Json]) -> None:
    for encode, packed_first in ((pack, True), (encode_flexbuffer, False)):
        found = decode_early_values([encode(each) for each in values], packed_first=packed_first)
        assert written(found) == written(values)


def early_payloads() -> list[tuple[str, bytes]]:
    """Payloads of the entry points of each form, and of a snapshot of August 2025."""
    found = []
    for form in FORMS:
        store = MemoryStore()
        write(store, FULL)
        make_early(store, form)
        data = store.get("repo").data
        found.append(("repo", bytes(decode_envelope(data, FileType.REPO_INFO).data)))
        if form.packed_files:
            key = max(store.list("snapshots/"), key=lambda info: info.size_bytes).key
            data = store.get(key).data
            found.append(("snapshot", bytes(decode_envelope(data, FileType.SNAPSHOT).data)))
    return found


@settings(max_examples=scaled(60))
@given(data=st.data())
def test_damaged_ones_are_read_or_refused(data: st.DataObject, sound: list[Any]) -> None:
    kind, payload = data.draw(st.sampled_from(sound))
    damaged = bytearray(payload)
    for _ in range(data.draw(st.integers(1, 3))):
        at = 4 * data.draw(st.integers(0, len(damaged) // 4 - 1))
        number = data.draw(st.integers(0, 2**32 - 1) | st.integers(0, 300))
        damaged[at : at + 4] = number.to_bytes(4, "little")
    if kind == "snapshot":
        with suppress(FormatError):
            decode_early_snapshot(encode_envelope(bytes(damaged), FileType.SNAPSHOT), {})
        return
    file = encode_envelope(bytes(damaged), FileType.REPO_INFO)
    for read in (
        decode_early_repo_info,
        decode_early_log_page,
        is_early_repo_info,
        lambda found: has_early_values(decode_repo_info(found)),
    ):
        with suppress(FormatError):
            read(file)


@pytest.fixture(scope="module")
def sound() -> list[tuple[str, bytes]]:
    return early_payloads()
