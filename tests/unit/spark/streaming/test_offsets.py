"""Which commits are next, whatever happened to the branch."""

import pytest
import zarr
from hypothesis import given
from hypothesis import strategies as st

import frazil
from frazil.errors import InvalidInputError, SnapshotNotFoundError
from frazil.format.repo_info import RepoInfo
from frazil.ids import SnapshotId
from frazil.spark.io.stream_commits import (
    Offset,
    OnRewrite,
    StartFrom,
    StreamOptions,
    commits_between,
    first_offset,
    next_offset,
    parse_offset,
    parse_stream_options,
    refuse_stream_options,
    without_stream_options,
)

FAIL = StreamOptions()
RESTART = StreamOptions(on_rewrite=OnRewrite.RESTART)


@pytest.fixture
def repository() -> frazil.Repository:
    return frazil.Repository.create(frazil.in_memory_storage())


def commit(repository: frazil.Repository, text: str, branch: str = "main") -> SnapshotId:
    with repository.transaction(branch, message=text) as store:
        zarr.group(store).attrs["text"] = text
    return SnapshotId.parse(repository.lookup_branch(branch))


def info(repository: frazil.Repository) -> RepoInfo:
    return repository.engine.repo_info()


def read(found: RepoInfo, start: Offset, options: StreamOptions = FAIL) -> list[SnapshotId]:
    """Of the batch after `start`."""
    end = next_offset(found, "main", start, options)
    return [each.snapshot for each in commits_between(found, start, end)]


def test_batches_of_any_size_make_up_the_history(repository: frazil.Repository) -> None:
    made = [commit(repository, str(k)) for k in range(7)]
    found = info(repository)
    first = first_offset(found, "main", FAIL)

    @given(st.lists(st.integers(1, 4), max_size=9))
    def check(limits: list[int]) -> None:
        start, seen = first, list[SnapshotId]()
        for limit in limits:
            end = next_offset(found, "main", start, FAIL, limit=limit)
            part = commits_between(found, start, end)
            assert len(part) == min(limit, len(made) - len(seen))
            seen += [each.snapshot for each in part]
            start = parse_offset(end.to_json())
        assert seen == made[: sum(limits)]

    check()


def test_a_commit_knows_its_parent_its_time_and_its_log(repository: frazil.Repository) -> None:
    one, two = commit(repository, "1"), commit(repository, "2")
    found = info(repository)
    (last,) = commits_between(found, Offset(one), Offset(two))
    record = repository.engine.lookup_snapshot(two)
    assert (last.snapshot, last.parent, last.logs) == (two, one, (two,))
    assert last.committed_us == record.flushed_at_us


def test_where_a_stream_begins(repository: frazil.Repository) -> None:
    root = SnapshotId.parse(repository.lookup_branch("main"))
    made = [commit(repository, str(k)) for k in range(3)]
    found = info(repository)
    time = repository.engine.lookup_snapshot(made[1]).flushed_at_us
    starts = {
        StreamOptions(): root,
        StreamOptions(start_from=StartFrom.LATEST): made[2],
        StreamOptions(starting_snapshot=str(made[0])): made[0],
        StreamOptions(starting_us=time): made[0],
        StreamOptions(starting_us=time + 1): made[1],
        StreamOptions(starting_us=0): root,
        StreamOptions(starting_us=2**60): made[2],
    }
    assert {o: first_offset(found, "main", o).snapshot for o in starts} == starts


def test_a_stream_cannot_begin_elsewhere(repository: frazil.Repository) -> None:
    repository.create_branch("other", repository.lookup_branch("main"))
    elsewhere = commit(repository, "x", "other")
    with pytest.raises(InvalidInputError, match="not in the branch's history"):
        first_offset(info(repository), "main", StreamOptions(starting_snapshot=str(elsewhere)))
    with pytest.raises(SnapshotNotFoundError):
        first_offset(info(repository), "main", StreamOptions(starting_snapshot="0" * 20))


def test_nothing_new_is_the_same_offset(repository: frazil.Repository) -> None:
    start = Offset(commit(repository, "1"), after=SnapshotId.parse("0" * 20))
    found = info(repository)
    assert next_offset(found, "main", start, FAIL) == start
    assert commits_between(found, start, start) == []


def test_a_target_bounds_a_stream(repository: frazil.Repository) -> None:
    made = [commit(repository, str(k)) for k in range(3)]
    found = info(repository)
    assert next_offset(found, "main", Offset(made[0]), FAIL, until=made[1]) == Offset(made[1])
    assert next_offset(found, "main", Offset(made[1]), FAIL, until=made[1]) == Offset(made[1])


def rewritten(repository: frazil.Repository, how: str) -> tuple[SnapshotId, list[SnapshotId]]:
    """What a stream has read, and what replaced it."""
    base = commit(repository, "base")
    read = commit(repository, "read")
    if how == "amended":
        session = repository.writable_session("main")
        zarr.group(session.store).attrs["text"] = "amended"
        return read, [SnapshotId.parse(session.amend("amended"))]
    repository.reset_branch("main", str(base))
    return read, [commit(repository, text) for text in ("new", "newer")]


@pytest.mark.parametrize("how", ["amended", "reset"])
def test_a_rewritten_branch_is_an_error(repository: frazil.Repository, how: str) -> None:
    start, _ = rewritten(repository, how)
    with pytest.raises(InvalidInputError, match=r"reset or amended.*onRewrite=restart") as raised:
        next_offset(info(repository), "main", Offset(start), FAIL)
    assert raised.value.kind == "branch-rewritten"


@pytest.mark.parametrize("how", ["amended", "reset"])
def test_a_stream_may_go_on_from_what_both_histories_have(
    repository: frazil.Repository, how: str
) -> None:
    start, replaced = rewritten(repository, how)
    found = info(repository)
    assert read(found, Offset(start), RESTART) == replaced
    end = next_offset(found, "main", Offset(start), RESTART, limit=1)
    assert end.after is not None
    # the batch is the same when it is done again, even after the branch was moved once more
    commit(repository, "newest")
    later = commits_between(info(repository), Offset(start), parse_offset(end.to_json()))
    assert [each.snapshot for each in later] == replaced[:1]
    # and the next batch begins where this one ended
    assert read(info(repository), end, RESTART)[: len(replaced) - 1] == replaced[1:]


def test_a_branch_that_went_back_gives_nothing(repository: frazil.Repository) -> None:
    base, start = commit(repository, "base"), commit(repository, "read")
    repository.reset_branch("main", str(base))
    found = info(repository)
    assert next_offset(found, "main", Offset(start), RESTART) == Offset(start)


def test_an_expired_offset_is_an_error(repository: frazil.Repository) -> None:
    made = commit(repository, "1")
    gone = Offset(SnapshotId.parse("0" * 20))
    found = info(repository)
    with pytest.raises(SnapshotNotFoundError, match=r"expired.*checkpointLocation"):
        next_offset(found, "main", gone, FAIL)
    with pytest.raises(SnapshotNotFoundError, match="expired"):
        commits_between(found, gone, Offset(made))
    assert read(found, gone, RESTART) == [made]


def test_offsets_are_json() -> None:
    one, two = (SnapshotId(bytes([k] * 12)) for k in (1, 2))
    for offset in (Offset(one), Offset(one, two)):
        assert parse_offset(offset.to_json()) == offset
    for wrong in ({}, {"index": 3}, {"snapshot": 3}, {"snapshot": str(one), "more": "x"}):
        with pytest.raises(InvalidInputError, match="another source"):
            parse_offset(wrong)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"startFrom": "now"}, "'earliest' or 'latest'"),
        ({"onRewrite": "ignore"}, "'fail' or 'restart'"),
        ({"onRemoval": "restart"}, "'fail' or 'ignore'"),
        ({"maxCommitsPerTrigger": "0"}, "expected a positive number"),
        ({"startingTimestamp": "yesterday"}, "expected an ISO time"),
        ({"startingSnapshot": "abc"}, "abc"),
        ({"changes": "yes"}, "expected true or false"),
        ({"startFrom": "latest", "startingSnapshot": "0" * 20}, "exclude each other"),
    ],
)
def test_mistakes_in_options_are_explained(wrong: dict[str, str], message: str) -> None:
    with pytest.raises(InvalidInputError, match=message):
        parse_stream_options(wrong)


def test_options_of_streams_are_known_by_name() -> None:
    kept = {"PATH": "p", "storage.startFrom": "x"}
    given = {**kept, "startfrom": "latest", "changes": "true"}
    assert without_stream_options(given) == kept
    with pytest.raises(InvalidInputError, match=r"did you mean 'startingSnapshot'"):
        without_stream_options({"startingSnapshots": "x"})
    with pytest.raises(InvalidInputError, match=r"use spark.readStream"):
        refuse_stream_options(given)
    refuse_stream_options({"path": "p"})
