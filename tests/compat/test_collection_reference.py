"""Expiring, collecting and counting, beside the reference on copies of one history."""

from datetime import datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import icechunk
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import frazil
from tests.compat.collections import (
    Made,
    contents,
    copied,
    files,
    led_to,
    make,
    state,
    steps,
    young_snapshots,
)
from tests.examples_count import scaled

COUNTED = ("snapshots", "transaction_logs", "manifests", "chunks")


def theirs(path: Path) -> icechunk.Repository:
    return icechunk.Repository.open(icechunk.local_filesystem_storage(str(path)))


def ours(path: Path) -> frazil.Repository:
    return frazil.Repository.open(frazil.local_filesystem_storage(str(path)))


def expire_both(
    made: Made, left: Path, right: Path, when: datetime, flags: tuple[bool, ...]
) -> None:
    choice: Any = {"delete_expired_branches": flags[0], "delete_expired_tags": flags[1]}
    foreseen = ours(right).expire_snapshots(when, **choice, dry_run=True)
    expired = ours(right).expire_snapshots(when, **choice)
    assert expired == foreseen
    assert expired == theirs(left).expire_snapshots(when, **choice)
    assert state(right, made.names) == state(left, made.names)
    assert files(right) == files(left)


def collect_both(made: Made, left: Path, right: Path, when: datetime) -> None:
    before = files(left)
    known = set(state(left, made.names)[0])  # type: ignore[call-overload]  # the first is a dict
    # A young snapshot that nobody lists may be a commit in the making. The reference keeps its
    # file and deletes what it refers to; frazil keeps both.
    strangers = {each for each in young_snapshots(left, when) if made.names.get(each) not in known}
    excused = led_to(left, strangers)
    foreseen = ours(right).garbage_collect(when, dry_run=True)
    assert files(right) == before
    summary = ours(right).garbage_collect(when)
    reference = theirs(left).garbage_collect(when)
    assert files(left) <= files(right)
    assert files(right) - files(left) <= excused
    assert state(right, made.names) == state(left, made.names)
    for kind in COUNTED:
        name = f"{kind}_deleted"
        assert getattr(foreseen, name) == getattr(summary, name)
        if files(right) == files(left):
            assert getattr(reference, name) == getattr(summary, name)
    assert foreseen.bytes_deleted == summary.bytes_deleted
    if files(right) == files(left):
        assert summary.bytes_deleted == reference.bytes_deleted
    assert sum(getattr(summary, f"{kind}_deleted") for kind in COUNTED) == len(before) - len(
        files(right)
    )


def same_stats(left: Path) -> None:
    reference, found = theirs(left).chunk_storage_stats(), ours(left).chunk_storage_stats()
    assert found.native_bytes == reference.native_bytes
    assert found.virtual_bytes == reference.virtual_bytes
    assert found.inlined_bytes == reference.inlined_bytes
    assert found.total_bytes() == reference.total_bytes()
    assert found.non_virtual_bytes() == reference.non_virtual_bytes()


@pytest.mark.parametrize("version", [1, 2])
def test_both_delete_the_same_and_both_can_read_what_is_left(version: int) -> None:
    @settings(max_examples=scaled(20))
    @given(steps, st.integers(0, 99), st.integers(0, 99), st.tuples(st.booleans(), st.booleans()))
    def check(
        done: list[tuple[str, int]], expiry: int, cutoff: int, flags: tuple[bool, bool]
    ) -> None:
        with TemporaryDirectory() as directory:
            made = make(Path(directory, "made"), version, done)
            left, right = copied(made, "left"), copied(made, "right")
            same_stats(left)
            if expiry % 3:
                when = made.moments[expiry % len(made.moments)]
                expire_both(made, left, right, when, flags)
            collect_both(made, left, right, made.moments[cutoff % len(made.moments)])
            expected = contents(theirs(left))
            for path in (left, right):
                assert contents(theirs(path)) == expected
                assert contents(ours(path)) == expected
            same_stats(right)

    check()


def test_what_may_not_be_done_is_refused_alike() -> None:
    repository = frazil.Repository.create(frazil.in_memory_storage())
    reference = icechunk.Repository.create(icechunk.in_memory_storage())
    now = datetime.now().astimezone()
    for one in (repository, reference):
        with pytest.raises(TypeError, match="tzinfo"):
            one.garbage_collect(now.replace(tzinfo=None))
        for limit in ("max_snapshots_in_memory", "max_concurrent_deletes"):
            zero: Any = {limit: 0}
            with pytest.raises(ValueError, match="invalid zero value"):
                one.garbage_collect(now, **zero)
    repository.set_status(frazil.RepoStatus(frazil.RepoAvailability.read_only))
    reference.set_status(icechunk.RepoStatus(icechunk.RepoAvailability.read_only))
    for one, errors in ((repository, frazil), (reference, icechunk)):
        for refused in (one.garbage_collect, one.expire_snapshots):
            with pytest.raises(errors.ReadOnlyError) as caught:
                refused(now)
            assert caught.value.kind == "read-only-repository"


def test_both_say_in_the_ops_log_that_they_ran() -> None:
    repository = frazil.Repository.create(frazil.in_memory_storage())
    reference = icechunk.Repository.create(icechunk.in_memory_storage())
    now = datetime.now().astimezone()
    for one in (repository, reference):
        one.expire_snapshots(now)
        one.garbage_collect(now)
        one.garbage_collect(now, dry_run=True)
    assert [type(each.kind).__name__ for each in repository.ops_log()] == [
        type(each.kind).__name__ for each in reference.ops_log()
    ]


def test_the_sums_look_alike() -> None:
    repository = frazil.Repository.create(frazil.in_memory_storage())
    reference = icechunk.Repository.create(icechunk.in_memory_storage())
    now = datetime.now().astimezone()
    summary, expected = repository.garbage_collect(now), reference.garbage_collect(now)
    names = [name for name in dir(expected) if not name.startswith("_")]
    assert [getattr(summary, name) for name in names] == [getattr(expected, name) for name in names]
    with pytest.warns(DeprecationWarning, match="chunk_storage_stats"):
        assert repository.total_chunks_storage() == 0
