"""A repo info that grew step by step is, in its file, what it would be if written at once."""

from dataclasses import replace

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from frazil.engine.refs.entry import initial_repo_info
from frazil.engine.refs.ops_log import record
from frazil.format import repo_info
from frazil.format.repo_info import (
    RepoInfo,
    decode_repo_info,
    encode_incrementally,
    encode_repo_info,
    resume_growth,
)
from frazil.format.update_log import (
    Availability,
    BranchReset,
    FeatureFlagChanged,
    GrowingLog,
    NewCommit,
    RepoStatus,
    RepoStatusChanged,
    TagCreated,
    UpdateKind,
)
from frazil.ids import SnapshotId
from tests.examples_count import scaled

steps = st.lists(
    st.tuples(
        st.sampled_from(
            [
                "commit",
                "tag",
                "tags",
                "twice",
                "status",
                "flag",
                "reset",
                "forget",
                "read",
                "resume",
            ]
        ),
        st.integers(0, 2**96 - 1),
        st.text(max_size=8),
    ),
    max_size=14,
)


def stepped(info: RepoInfo, kind: str, number: int, text: str) -> tuple[RepoInfo, UpdateKind]:
    tip = info.snapshots.id(info.branches["main"])
    new = SnapshotId(number.to_bytes(12, "big"))
    match kind:
        case "commit" | "twice" if info.snapshots.find(new) < 0:
            info = info.with_snapshot(new, tip, 7, text, {"author": text, "n": number % 100})
            if kind == "twice" and info.snapshots.find(other := SnapshotId(new.raw[::-1])) < 0:
                info = info.with_snapshot(other, new, 8, "", {}, pruned_logs=[tip.raw])
            return info.with_branch("main", new), NewCommit("main", new)
        case "status":
            status = RepoStatus(Availability.ONLINE, number % 2**40, text or None)
            return replace(info, status=status), RepoStatusChanged(status)
        case "flag":
            return replace(info, enabled_flags=(number % 9,)), FeatureFlagChanged(number % 9, None)
        case "tags":
            for at in range(70):
                info = info.with_tag(f"{at} {text}", tip)
            return info, TagCreated(text)
        case "reset":
            return info.with_branch("main", tip), BranchReset("main", tip)
        case _:
            return info.with_tag(f"t{text}", tip), TagCreated(f"t{text}")


def same(one: RepoInfo, other: RepoInfo) -> bool:
    return (
        one.snapshots.table.equals(other.snapshots.table)
        and np.array_equal(one.snapshots.ids, other.snapshots.ids)
        and np.array_equal(one.snapshots.parents, other.snapshots.parents)
        and np.array_equal(one.snapshots.flushed_at_us, other.snapshots.flushed_at_us)
        and list(one.updates) == list(other.updates)
        and len(one.updates) == len(other.updates)
        and (one.tags, one.branches, one.status) == (other.tags, other.branches, other.status)
        and (one.metadata, one.config) == (other.metadata, other.config)
        and (one.before_updates, one.enabled_flags) == (other.before_updates, other.enabled_flags)
    )


@settings(max_examples=scaled(40))
@given(steps, st.integers(1, 6), st.integers(1, 5))
def test_growing_is_the_same_as_writing_at_once(
    chosen: list[tuple[str, int, str]], page: int, most: int
) -> None:
    info = plain = initial_repo_info(1, config={"a": [1, "b"]})
    limit, repo_info.MOST_STEPS = repo_info.MOST_STEPS, most  # type: ignore[misc]  # for now
    try:
        for at, (kind, number, text) in enumerate(chosen):
            if kind == "read":
                assert info.snapshots.message(0) == plain.snapshots.message(0)
                continue
            results = []
            for each in (info, plain):
                made, update = stepped(each, kind, number, text)
                backup = f"backup{at}"
                results.append(record(made, update, now_us=10 + at, backup=backup, page_size=page))
            data, info = encode_incrementally(results[0], level=1)
            plain = decode_repo_info(encode_repo_info(results[1]))
            assert same(decode_repo_info(data), plain)
            assert same(info, plain)
            if kind == "forget":
                info = decode_repo_info(data)
            if kind == "resume":
                info = resume_growth(decode_repo_info(data))
                assert isinstance(info.updates, GrowingLog)
    finally:
        repo_info.MOST_STEPS = limit  # type: ignore[misc]  # as it was
