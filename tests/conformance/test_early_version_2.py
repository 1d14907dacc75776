"""Repositories of version 2 from before its release, of every month: read, verified, migrated."""

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
from frazil.flatbuf.flexbuffers import Json, decode_flexbuffer, encode_flexbuffer
from frazil.format.alpha.v2pre import decode_early_values
from frazil.format.repo_info import RepoInfo, decode_repo_info
from frazil.objectstore.local import LocalStore
from frazil.objectstore.memory import MemoryStore
from tests.conformance.early_version_2 import FORMS, Form, logged, make_early, pack
from tests.examples_count import scaled
from tests.unit.maintenance.moved import Seen, opened, seen

json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(codec="utf-8"), max_size=12),
    lambda inner: st.lists(inner, max_size=4)
    | st.dictionaries(
        st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=5),
        inner,
        max_size=3,
    ),
    max_leaves=8,
)
BOTH = [5, 4, 1]  # whose MessagePack is FlexBuffers of 5
names = st.text("abé.-_", min_size=1, max_size=6)
histories = st.fixed_dictionaries(
    {
        "commits": st.lists(st.dictionaries(names, json_values, max_size=2), max_size=3),
        "tags": st.sets(names, max_size=2),
        "deleted": st.sets(names.map("x{}".format), max_size=2),
        "branches": st.sets(names, max_size=2),
        "amends": st.booleans(),
        "resets": st.booleans(),
        "seed": st.integers(0, 2**32 - 1),
    }
)
by_form = pytest.mark.parametrize("form", FORMS, ids=lambda form: form.name)
few = settings(
    max_examples=scaled(2), deadline=None, suppress_health_check=[HealthCheck.too_slow]
)


def write(store: Any, history: dict[str, Any]) -> Repository:
    """A repository of version 2 with random contents."""
    rng = np.random.default_rng(history["seed"])
    repo = Repository.create(Storage(store))
    for at, metadata in enumerate([{}, *history["commits"], {"both": BOTH}]):
        session = repo.writable_session("main")
        values = rng.integers(0, 1000, (30, 40))
        array = zarr.create_array(session.store, name=f"g{at}/a", data=values, chunks=(30, 20))
        array.attrs["at"] = at
        zarr.create_array(session.store, name=f"tiny{at}", data=values[0, :3], chunks=(1,))
        if at:
            zarr.open_array(session.store, path="g0/a")[:, 0] = -at
        is_amended = history["amends"] and at > 1
        (session.amend if is_amended else session.commit)(f"commit {at} ✓", metadata=metadata)
    tip = repo.lookup_branch("main")
    for name in history["tags"] | history["deleted"]:
        repo.create_tag(name, tip)
    for name in history["deleted"] - history["tags"]:
        repo.delete_tag(name)
    for name in history["branches"] - {"main"}:
        repo.create_branch(name, tip)
    if history["resets"]:
        repo.reset_branch("main", next(iter(repo.ancestry(branch="main"))).parent_id or tip)
    repo.update_metadata({"of": "the repository", "n": [1, 2]})
    return repo


def theirs(root: Path) -> icechunk.Repository:
    return icechunk.Repository.open(icechunk.local_filesystem_storage(str(root)))


def made(form: Form, history: dict[str, Any], store: Any) -> tuple[Seen, RepoInfo]:
    repo = write(store, history)
    expected, info = seen(repo), decode_repo_info(store.get("repo").data)
    make_early(store, form)
    return expected, info


def without_ids(found: Seen) -> Seen:
    return {ref: [(None, *rest) for _, *rest in history] for ref, history in found.items()}


@by_form
@few
@given(histories)
def test_history_values_and_ops_log_are_read(form: Form, history: dict[str, Any]) -> None:
    store = MemoryStore()
    expected, info = made(form, history, store)
    repo = opened(store)
    assert repo.generation == ("V2" if form.is_current else "V2pre")
    assert seen(repo) == expected
    engine = repo.engine.repo_info()
    assert set(engine.deleted_tags) == set(info.deleted_tags)
    assert repo.get_metadata() == {"of": "the repository", "n": [1, 2]}
    kinds = [type(update.kind).__name__ for update in repo.ops_log()]
    assert kinds == [kind for kind in logged(info, form) if kind != "MetadataChanged"]
    store.put("config.yaml", b"inline_chunk_threshold_bytes: 7\n")
    if not form.is_current:
        assert opened(store).config.inline_chunk_threshold_bytes == 7


@by_form
@few
@given(histories)
def test_nothing_is_wrong_with_them(form: Form, history: dict[str, Any]) -> None:
    store = MemoryStore()
    made(form, history, store)
    repo = opened(store)
    if form.is_current:
        kinds = {each.kind for each in repo.verify(decode=True).problems}
        assert kinds <= {"manifest-list-version", "shape-version", "deleted-tags-unsorted"}
        return
    for report in (repo.verify(decode=True), Repository.verify_storage(Storage(store))):
        assert [str(problem) for problem in report.problems] == []
        assert report.refs.native
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


@pytest.mark.compat
@by_form
@few
@given(histories)
def test_the_reference_reads_what_they_become(
    form: Form, history: dict[str, Any], tmp_path_factory: pytest.TempPathFactory
) -> None:
    root = tmp_path_factory.mktemp("early")
    store = LocalStore(root / "old")
    expected, info = made(form, history, store)
    if form.is_current:
        opened(store).repair()
        assert seen(theirs(root / "old")) == expected
        with opened(store).transaction("main", message="more") as zarr_store:
            zarr.create_array(zarr_store, name="more", data=np.arange(9))
        assert seen(theirs(root / "old")) == seen(opened(store)) != expected
        opened(store).garbage_collect(datetime.now(UTC))
        assert seen(theirs(root / "old")) == seen(opened(store))
        return
    repo = opened(store)
    repo.migrate(storage=local_filesystem_storage(root / "copy"))
    assert seen(theirs(root / "copy")) == expected
    repo.migrate()
    for place in ("copy", "old"):
        found = opened(root / place)
        assert found.generation == "V2"
        assert without_ids(seen(found)) == without_ids(expected)
        assert without_ids(seen(theirs(root / place))) == without_ids(expected)
        assert [str(problem) for problem in found.verify(decode=True).problems] == []
        assert found.get_metadata() == {"of": "the repository", "n": [1, 2]}
        assert set(found.engine.repo_info().deleted_tags) == set(info.deleted_tags)
        assert list(theirs(root / place).ops_log())
    opened(root / "old").confirm_migration()
    assert without_ids(seen(theirs(root / "old"))) == without_ids(expected)
    assert opened(root / "old").verify(decode=True).problems == ()


@given(st.lists(json_values, max_size=6), st.booleans())
@example([BOTH, 5], False)  # noqa: FBT003 -- what hypothesis asks for
def test_the_values_of_a_repository_are_never_taken_for_others(
    values: list[Json],
    packed_first: bool,  # noqa: FBT001 -- drawn
) -> None:
    """Every repository has a value that only one of the encodings can be: that of its root."""
    values = [*values, True]
    for encode in (pack, encode_flexbuffer):
        stored = [encode(value) for value in values]
        found = decode_early_values(stored, packed_first=packed_first)
        assert repr(found) == repr([decode_flexbuffer(encode_flexbuffer(each)) for each in values])


@given(st.lists(json_values, max_size=6))
def test_values_that_may_be_either_are_what_the_month_wrote(values: list[Json]) -> None:
    expected = repr([decode_flexbuffer(encode_flexbuffer(value)) for value in values])
    packed = [pack(value) for value in values]
    assert repr(decode_early_values(packed, packed_first=True)) == expected
    stored = [encode_flexbuffer(value) for value in values]
    assert repr(decode_early_values(stored, packed_first=False)) == expected
