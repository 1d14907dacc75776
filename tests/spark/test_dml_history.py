"""The oracle of concurrent statements accepts isolated histories, and finds out others."""

# ruff: noqa: S608 -- no user's text is in these statements

from pathlib import Path

import icechunk
import numpy as np
import pytest
import zarr

from tests.spark.dml_history import Done, History
from tests.spark.dml_oracle import Statement, Table, coordinate

SIZE = 6


class Branch:
    """A table whose statements are done by hand, as a Spark writer should."""

    def __init__(self, folder: Path) -> None:
        self.table = Table(str(folder / "r"), {"d0": "long"}, {"d0": 2})
        storage = icechunk.local_filesystem_storage(self.table.path)
        self.repository = icechunk.Repository.create(storage)
        session = self.repository.writable_session("main")
        group = zarr.group(session.store)
        values = {"n": np.zeros(SIZE, "i4"), "v": np.arange(SIZE, dtype="f8")}
        values["d0"] = np.array([coordinate("long", k) for k in range(SIZE)])
        for name, value in values.items():
            fill = {"n": -999, "v": np.nan, "d0": 0}[name]
            group.create_array(name, data=value, chunks=(2,), fill_value=fill)
        self.start = session.commit("table")

    def begin(self) -> icechunk.Session:
        return self.repository.writable_session("main")

    def double(self, session: icechunk.Session, first: int, last: int) -> None:
        """Changes numbers from first to last; the commit wins over others."""
        v = zarr.open_array(session.store, path="v")
        v[first : last + 1] = np.asarray(v[first : last + 1]) * 2 + 1
        ours = icechunk.BasicConflictSolver(on_chunk_conflict=icechunk.VersionSelection.UseOurs)
        session.commit("double", rebase_with=ours)

    @property
    def tip(self) -> str:
        return self.repository.lookup_branch("main")

    def explain(self, *writers: list[Done]) -> History:
        history = History(self.table, self.start, writers)
        history.require_explained()
        return history


@pytest.fixture
def branch(tmp_path: Path) -> Branch:
    return Branch(tmp_path)


def doubled(first: int, last: int) -> Statement:
    low, high = (coordinate("long", k) for k in (first, last))
    return Statement(
        "update", duck=(f"UPDATE t SET v = v * 2 + 1 WHERE d0 BETWEEN {low} AND {high}",)
    )


def test_statements_one_after_the_other_are_explained(branch: Branch) -> None:
    done = list[Done]()
    for first, last in ((0, 3), (2, 5)):
        before = branch.tip
        branch.double(branch.begin(), first, last)
        done.append(Done(before, branch.tip, doubled(first, last)))
    assert branch.explain(done).count_rebased() == 0
    with pytest.raises(AssertionError, match="no statement explains"):
        branch.explain(done[::-1])


def test_a_rebase_over_other_chunks_is_explained(branch: Branch) -> None:
    """The condition is true on the snapshot that was read, and no longer when it is committed."""
    session = branch.begin()
    branch.double(branch.begin(), 2, 3)
    between = branch.tip
    zarr.open_array(session.store, path="n")[:2] = 1
    session.commit("n", rebase_with=icechunk.ConflictDetector())
    other_chunk = "(SELECT v FROM t WHERE d0 = -10) = 2"
    update = Statement("update", duck=(f"UPDATE t SET n = 1 WHERE d0 < -15 AND {other_chunk}",))
    done = [Done(branch.start, branch.tip, update)]
    assert branch.explain(done, [Done(branch.start, between, doubled(2, 3))]).count_rebased() == 1


@pytest.mark.parametrize("ours", [(2, 3), (3, 4)])
def test_an_update_that_was_lost_is_found_out(branch: Branch, ours: tuple[int, int]) -> None:
    """In the cells that both changed, or in a chunk of both."""
    late, early = branch.begin(), branch.begin()
    branch.double(early, 0, 2)
    between = branch.tip
    branch.double(late, *ours)
    one, other = doubled(0, 2), doubled(*ours)
    with pytest.raises(AssertionError, match="no statement explains"):
        branch.explain([Done(branch.start, between, one)], [Done(branch.start, branch.tip, other)])


def test_a_commit_too_many_and_one_too_few_are_found_out(branch: Branch) -> None:
    branch.double(branch.begin(), 0, 1)
    once = branch.tip
    done = Done(branch.start, once, doubled(0, 1))
    branch.explain([done])
    with pytest.raises(AssertionError, match="no commit of"):
        branch.explain([done], [Done(branch.start, once, doubled(4, 5))])
    branch.double(branch.begin(), 0, 1)
    with pytest.raises(AssertionError, match="no statement explains"):
        branch.explain([Done(branch.start, branch.tip, doubled(0, 1))])


def test_an_error_must_have_a_reason(branch: Branch) -> None:
    conflict = Done(branch.start, branch.start, doubled(0, 1), "Rebase failed: ...")
    with pytest.raises(AssertionError, match="no commit of"):
        branch.explain([conflict])
    branch.double(branch.begin(), 0, 1)
    made = Done(branch.start, branch.tip, doubled(0, 1))
    branch.explain([made], [Done(branch.start, branch.tip, doubled(0, 1), "Rebase failed: ...")])
    with pytest.raises(AssertionError, match="no commit of"):
        branch.explain([made], [Done(branch.start, branch.tip, doubled(0, 1), "out of memory")])
