"""Idempotency keys: as long as the work of a job is on a branch, its key is found there."""

from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

import zarr
from hypothesis import given, settings
from hypothesis import strategies as st

import frazil
from frazil.engine.refs import commit_metadata as commit_keys
from frazil.engine.refs.commit_metadata import (
    CommitKeys,
    has_key,
    keys_of,
    strip_carried_keys,
    with_keys,
)
from frazil.flatbuf.flexbuffers import Json
from frazil.spark.runtime.commits import CommitNote, find_commit
from tests.examples_count import scaled

KEYS = st.one_of(
    st.builds("{}{}".format, st.sampled_from(["txn:a:", "txn:b:", "", "x"]), st.integers(0, 40)),
    st.sampled_from(["2024-03", "by latitude", "00", "txn:a:", "txn:a:07", "9" * 30, "é\n1"]),
)


@given(st.lists(KEYS), st.lists(KEYS), st.lists(KEYS))
def test_the_keys_in_a_commit_are_those_that_were_put_there(
    first: list[str], second: list[str], others: list[str]
) -> None:
    metadata: dict[str, Json] = {"mine": 1}
    for some in (first, second):
        given_keys = keys_of({"frazil": {"idempotency_key": key}} for key in some)
        metadata = with_keys(metadata, keys_of([metadata, *_notes(given_keys)]))
    for key in [*first, *second, *others]:
        assert has_key(metadata, key) == (key in {*first, *second})
    assert strip_carried_keys(metadata) == {"mine": 1}


def _notes(keys: CommitKeys) -> list[dict[str, Json]]:
    return [with_keys({}, keys)]


@given(st.recursive(st.none() | st.integers() | st.text(), lambda each: st.lists(each)
       | st.dictionaries(st.sampled_from(["numbered", "other", "a"]), each)))  # fmt: skip
def test_notes_that_make_no_sense_are_ignored(nonsense: Json) -> None:
    for metadata in ({"frazil": nonsense}, {"frazil": {"idempotency_keys": nonsense}}):
        assert not has_key(metadata, "txn:a:1")
        assert has_key(with_keys(metadata, keys_of([{"frazil": {"idempotency_key": "k"}}])), "k")


def test_a_long_stream_takes_a_line_and_other_keys_are_bounded() -> None:
    stream = CommitKeys()
    for batch in range(100_000):
        stream.add(f"stream:q:{batch}")
    assert stream.to_json() == {"numbered": {"stream:q:": [[0, 99_999]]}, "other": []}
    sparse = CommitKeys()
    for batch in range(0, 100_000, 10):
        sparse.add(f"stream:q:{batch}")
        sparse.add(f"key {batch}.")
        sparse.add(f"{batch} of many")
    metadata = with_keys({}, sparse)
    assert has_key(metadata, "stream:q:99990")
    assert has_key(metadata, "key 99990.")
    assert not has_key(metadata, "key 0.")
    assert len(str(metadata)) < 50 * commit_keys._MOST


@dataclass
class Jobs:
    """Jobs that each make a group of the name of their key, once."""

    spec_version: int
    repo: frazil.Repository = field(init=False)
    keys: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.repo = frazil.Repository.create(
            frazil.in_memory_storage(), spec_version=self.spec_version
        )
        self.commit("main", with_key=False)
        self.repo.create_branch("dev", self.repo.lookup_branch("main"))

    def commit(self, branch: str, *, with_key: bool, amends: bool = False) -> None:
        name = f"job-{len(self.keys)}" if with_key else "other"
        session = self.repo.writable_session(branch)
        zarr.open_group(session.store, mode="a").require_group(name).attrs["n"] = len(self.keys)
        note = CommitNote(operation="test", application="t", key=name if with_key else None)
        metadata = {"frazil": note.to_json()}
        commit = session.amend if amends else session.commit
        commit(name, metadata=metadata, allow_empty=True)
        self.keys += [name] if with_key else []

    def squash(self, branch: str, first: int, last: int) -> None:
        ids = [each.id for each in self.repo.ancestry(branch=branch)][:-1][::-1]
        first, last = sorted((first % len(ids), last % len(ids)))
        self.repo.squash(ids[first], ids[last], branch=branch, message="squashed")

    def expire(self, retain: int) -> None:
        later = datetime.now(UTC) + timedelta(days=1)
        self.repo.expire_snapshots(later, retain_last=retain)
        self.repo.garbage_collect(later)

    def check(self) -> None:
        assert self.repo.verify().problems == ()
        for branch in sorted(self.repo.list_branches()):
            groups = set(zarr.open_group(self.repo.readonly_session(branch).store, mode="r"))
            found = {key for key in self.keys if find_commit(self.repo.engine, branch, key)}
            assert found == groups & set(self.keys), branch


BRANCHES = st.sampled_from(["main", "dev"])
STEPS = st.one_of(
    st.tuples(st.just("commit"), BRANCHES, st.booleans()),
    st.tuples(st.just("amend"), BRANCHES, st.booleans()),
    st.tuples(st.just("squash"), BRANCHES, st.integers(0, 9), st.integers(0, 9)),
    st.tuples(st.just("expire"), st.integers(0, 3)),
    st.tuples(st.just("merge"), BRANCHES),
    st.tuples(st.just("pick"), BRANCHES),
    st.tuples(st.just("reset"), BRANCHES),
)


OTHER = {"main": "dev", "dev": "main"}


def take(jobs: Jobs, step: tuple[Any, ...]) -> None:
    match step:
        case "commit", str(branch), bool(with_key):
            jobs.commit(branch, with_key=with_key)
        case "amend", str(branch), bool(with_key) if jobs.spec_version == 2:
            jobs.commit(branch, with_key=with_key, amends=True)
        case "squash", str(branch), int(first), int(last) if jobs.spec_version == 2:
            jobs.squash(branch, first, last)
        case "expire", int(retain):
            jobs.expire(retain)
        case "merge" | "pick" | "reset", str(branch):
            with suppress(frazil.IcechunkError):  # conflicts; histories that were cut
                bring(jobs.repo, step[0], branch)
        case _:
            pass


def bring(repo: frazil.Repository, how: str, branch: str) -> None:
    """Brings the work on the other branch to this one."""
    tip = repo.lookup_branch(OTHER[branch])
    match how:
        case "merge":
            solver = frazil.BasicConflictSolver()
            repo.merge(OTHER[branch], into=branch, solver=solver)
        case "pick":
            repo.cherry_pick(tip, branch=branch)
        case _:
            repo.reset_branch(branch, tip)


@given(st.sampled_from([1, 2]), st.lists(STEPS, min_size=3, max_size=12))
@settings(max_examples=scaled(15))
def test_a_key_is_found_where_its_work_is(spec_version: int, steps: list[tuple[Any, ...]]) -> None:
    jobs = Jobs(spec_version)
    for step in steps:
        take(jobs, step)
    jobs.check()
