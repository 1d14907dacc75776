"""CALL does to a repository what the methods of frazil.Repository do to a copy of it."""

# ruff: noqa: E501 -- calls and what they mean, side by side

import shutil
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import icechunk
import numpy as np
import pytest
import xarray as xr
import zarr
from pyspark.errors import PySparkException
from pyspark.sql import Row, SparkSession

import frazil
from frazil.spark import ingest, rechunk
from frazil.spark.native.procedures import PROCEDURES
from tests.unit.spark.test_catalog_names import HOSTILE

pytestmark = [pytest.mark.spark, pytest.mark.spark_matrix]

READING = {"ancestors_of", "snapshots", "refs", "nodes", "storage", "diff", "lookup", "stats", "verify"}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Pair:
    """A repository in the catalog `calls`, and a copy of it beside the warehouse."""

    spark: SparkSession
    folder: Path
    words: dict[str, str]  # ids of snapshots

    def call(self, text: str) -> list[Row]:
        return self.spark.sql(f"CALL calls.system.{text.format(**self.words)}").collect()

    def error(self, text: str) -> str:
        with pytest.raises(PySparkException) as caught:
            self.call(text)
        return str(caught.value)

    @property
    def called(self) -> frazil.Repository:
        return open_at(self.folder / "warehouse" / "w")

    @property
    def copy(self) -> frazil.Repository:
        return open_at(self.folder / "copy")

    def files(self) -> dict[str, bytes]:
        return files_in(self.folder / "warehouse")


def open_at(path: Path) -> frazil.Repository:
    return frazil.Repository.open(frazil.local_filesystem_storage(path))


def files_in(folder: Path) -> dict[str, bytes]:
    return {str(p): p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file()}


def write(repository: frazil.Repository, branch: str, message: str, **values: int) -> str:
    with repository.transaction(branch, message=message) as store:
        for name, value in values.items():
            data = np.full(4, value, "i8")
            zarr.open_group(store, mode="a").create_array(
                name, data=data, chunks=(1,), dimension_names=["x"], overwrite=True
            )
    return repository.lookup_branch(branch)


def fill(repository: frazil.Repository) -> dict[str, str]:
    """Branches `main` and `dev`, which have a commit of their own, and `ahead`; a tag `v1`."""
    words = {"first": write(repository, "main", "first", v=1)}
    repository.create_tag("v1", words["first"])
    repository.create_branch("dev", words["first"])
    words["dev"] = write(repository, "dev", "of dev", w=2)
    words["middle"] = write(repository, "main", "middle", v=2)
    words["main"] = write(repository, "main", "of main", v=3)
    repository.create_branch("ahead", words["main"])
    words["ahead"] = write(repository, "ahead", "of ahead", u=4)
    repository.create_branch("clash", words["first"])
    words["clash"] = write(repository, "clash", "of clash", v=5)
    return words


@pytest.fixture
def pair(spark: SparkSession, tmp_path: Path) -> Pair:
    storage = frazil.local_filesystem_storage(tmp_path / "warehouse" / "w")
    words = fill(frazil.Repository.create(storage))
    shutil.copytree(tmp_path / "warehouse" / "w", tmp_path / "copy")
    spark.conf.set("spark.sql.catalog.calls", "frazil.spark.Catalog")
    spark.conf.set("spark.sql.catalog.calls.warehouse", str(tmp_path / "warehouse"))
    return Pair(spark, tmp_path, words)


def state(repository: frazil.Repository) -> dict[str, Any]:
    """What each ref holds: the messages of its history, and its arrays. Ids of commits differ."""
    found: dict[str, Any] = {}
    refs = [("branch", each) for each in sorted(repository.list_branches())]
    refs += [("tag", each) for each in sorted(repository.list_tags())]
    for kind, name in refs:
        named: dict[str, Any] = {kind: name}
        history = repository.ancestry(**named)
        messages = [each.message for each in history]
        session = repository.readonly_session(**named)
        group = zarr.open_group(session.store, mode="r")
        arrays = {key: np.asarray(array[:]).tolist() for key, array in group.arrays()}
        found[f"{kind} {name}"] = messages, arrays
    return found


type Act = Callable[[frazil.Repository, dict[str, str]], object]

# Calls, and what they are in Python
CALLS: list[tuple[str, Act]] = [
    ("create_branch('w', 'new')", lambda r, w: r.create_branch("new", w["main"])),
    ("create_branch('w', 'new', 'v1')", lambda r, w: r.create_branch("new", w["first"])),
    ("create_branch('w', branch => 'new', version => '{dev}')", lambda r, w: r.create_branch("new", w["dev"])),
    ("delete_branch('w', 'dev')", lambda r, _: r.delete_branch("dev")),
    ("reset_branch('w', 'dev', 'v1')", lambda r, w: r.reset_branch("dev", w["first"])),
    ("reset_branch(table => 'w', branch => 'main', version => 'dev')", lambda r, w: r.reset_branch("main", w["dev"])),
    ("create_tag('w', 'v2')", lambda r, w: r.create_tag("v2", w["main"])),
    ("create_tag('w', 'v2', 'dev')", lambda r, w: r.create_tag("v2", w["dev"])),
    ("delete_tag('w', 'v1')", lambda r, _: r.delete_tag("v1")),
    ("rollback_to_snapshot('w', '{first}')", lambda r, w: r.reset_branch("main", w["first"])),
    ("rollback_to_snapshot('`w@dev`', '{first}')", lambda r, w: r.reset_branch("dev", w["first"])),
    ("set_current_snapshot('w', '{dev}')", lambda r, w: r.reset_branch("main", w["dev"])),
    ("set_current_snapshot(table => 'w', ref => 'v1')", lambda r, w: r.reset_branch("main", w["first"])),
    ("set_current_snapshot('w.branch_dev', '{main}')", lambda r, w: r.reset_branch("dev", w["main"])),
    ("fast_forward('w', 'main', 'ahead')", lambda r, w: r.reset_branch("main", w["ahead"])),
    ("cherrypick_snapshot('w', '{dev}')", lambda r, w: r.cherry_pick(w["dev"], branch="main")),
    ("cherrypick_snapshot('w', '{dev}', 'picked')", lambda r, w: r.cherry_pick(w["dev"], branch="main", message="picked")),
    ("revert_snapshot('w', '{main}')", lambda r, w: r.revert(w["main"], branch="main")),
    ("merge('w', 'dev')", lambda r, _: r.merge("dev", into="main")),
    ("merge('w', 'ahead')", lambda r, _: r.merge("ahead", into="main")),
    ("merge('`w@dev`', source => 'ahead', message => 'm')", lambda r, _: r.merge("ahead", into="dev", message="m")),
    ("expire_snapshots(table => 'w', older_than => TIMESTAMP '2100-01-01 00:00:00')",
     lambda r, _: r.expire_snapshots(datetime(2100, 1, 1, tzinfo=UTC))),
    ("expire_snapshots(table => 'w', snapshot_ids => ARRAY('{middle}'))",
     lambda r, w: r.expire_snapshots(None, snapshot_ids=[w["middle"]])),
    ("rewrite_manifests('w', 'again')", lambda r, _: r.rewrite_manifests("again", branch="main")),
]  # fmt: skip


@pytest.mark.parametrize(("text", "act"), CALLS, ids=[text for text, _ in CALLS])
def test_a_call_does_what_the_method_does(pair: Pair, text: str, act: Act) -> None:
    before, files = state(pair.called), pair.files()
    dry = pair.call(text.removesuffix(")") + ", dry_run => true)")
    assert pair.files() == files
    rows = pair.call(text)
    act(pair.copy, pair.words)
    assert state(pair.called) == state(pair.copy)
    assert state(pair.called) != before
    assert len(dry) == len(rows)
    for planned, done in zip(dry, rows, strict=True):  # the plan is what was done
        differ = {k for k, v in planned.asDict().items() if v is not None and done[k] != v}
        assert differ == set()
    assert pair.called.verify().problems == ()
    icechunk.Repository.open(
        icechunk.local_filesystem_storage(str(pair.folder / "warehouse" / "w"))
    ).lookup_branch("main")


def test_rows_tell_what_was_done(pair: Pair) -> None:
    words = pair.words
    (row,) = pair.call("rollback_to_snapshot('w', '{first}')")
    assert tuple(row) == (words["main"], words["first"])
    (row,) = pair.call("fast_forward('w', 'main', '{ahead}')")
    assert tuple(row) == ("main", words["first"], words["ahead"])
    (row,) = pair.call("merge('w', 'dev')")
    tip = pair.called.lookup_branch("main")
    assert tuple(row) == ("dev", words["ahead"], tip, 1, [], False)
    (row,) = pair.call("delete_branch('w', 'dev')")
    assert tuple(row) == ("dev", words["dev"])
    (row,) = pair.call("pack('w')")
    assert (row["chunks"], row["previous_snapshot_id"]) == (0, tip)  # all are inline


def test_a_branch_goes_back_to_a_time(pair: Pair) -> None:
    history = list(pair.called.ancestry(branch="main"))
    when = history[1].written_at.astimezone(UTC)
    (row,) = pair.call(f"rollback_to_timestamp('w', TIMESTAMP '{when:%Y-%m-%d %H:%M:%S.%f}')")
    assert tuple(row) == (history[0].id, history[1].id)
    assert pair.called.lookup_branch("main") == history[1].id


def test_what_is_young_stays(pair: Pair) -> None:
    before = pair.files()
    assert pair.call("expire_snapshots('w')") == []
    assert pair.call("remove_orphan_files('w')") == []
    kept = {path: data for path, data in pair.files().items() if path in before}
    assert {path for path in before if kept.get(path) != before[path]} <= {
        str(pair.folder / "warehouse" / "w" / "repo")  # the ops log tells that they ran
    }
    assert state(pair.called) == state(pair.copy)


def test_orphans_go(pair: Pair) -> None:
    repository = pair.called
    rng = np.random.default_rng(3)
    lost = repository.writable_session("main")
    zarr.open_group(lost.store).create_array("lost", data=rng.integers(0, 2**60, 4000))
    lost.flush("reachable from no branch")
    assert "at least 86400 s ago" in pair.error(
        "remove_orphan_files('w', {now})".replace("{now}", later())
    )
    call = f"remove_orphan_files(table => 'w', older_than => {later()}, safety_hours => 0"
    planned = pair.call(f"{call}, dry_run => true)")
    done = pair.call(f"{call})")
    assert [tuple(row) for row in planned] == [tuple(row) for row in done]
    assert {row["kind"] for row in done} >= {"chunks", "snapshots"}
    assert pair.call(f"{call})") == []
    assert not list((pair.folder / "warehouse" / "w" / "chunks").rglob("*.*"))
    assert state(repository) == state(pair.copy)
    assert repository.verify().problems == ()


def later() -> str:
    return f"TIMESTAMP '{datetime.now(UTC) + timedelta(days=1):%Y-%m-%d %H:%M:%S}'"


def test_small_chunks_are_packed_and_unpacked(pair: Pair) -> None:
    rng = np.random.default_rng(5)
    values = rng.integers(0, 2**60, 20_000)
    with pair.called.transaction("main", message="large") as store:
        zarr.open_group(store).create_array("big", data=values, chunks=(1000,), compressors=None)
    (row,) = pair.call("pack('w.big', dry_run => true)")
    assert (row["chunks"], row["packs"], row["current_snapshot_id"]) == (20, 1, None)
    (row,) = pair.call("pack('w.big', small_bytes => 9000, pack_bytes => 40000)")
    assert (row["chunks"], row["size_bytes"]) == (20, 160_000)
    assert row["current_snapshot_id"] == pair.called.lookup_branch("main")
    packs = row["packs"]
    (row,) = pair.call("unpack('w')")
    assert row["chunks"] == 20
    assert packs > 1
    session = pair.called.readonly_session("main")
    np.testing.assert_array_equal(zarr.open_array(session.store, path="big")[:], values)


def test_a_repository_is_migrated(pair: Pair) -> None:
    folder = pair.folder / "warehouse" / "old"
    repository = frazil.Repository.create(frazil.local_filesystem_storage(folder), spec_version=1)
    fill(repository)
    before = state(repository)
    planned = pair.call("migrate('old', dry_run => true)")
    assert open_at(folder).spec_version == 1
    done = pair.call("migrate('old')")
    assert planned == done
    assert (int(open_at(folder).spec_version), state(open_at(folder))) == (2, before)
    planned = pair.call("confirm_migration('old', dry_run => true)")
    assert pair.call("confirm_migration('old')") == planned
    assert open_at(folder).verify().problems == ()
    assert "already" in pair.error("migrate('old')")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("create_branch('w', 'dev')", "already exists"),
        ("create_branch('w', '')", "missing"),
        ("create_branch('w', 'x', 'nothing')", "no branch, tag or snapshot 'nothing'"),
        ("create_branch('nothing', 'x')", "no table 'nothing'"),
        ("create_tag('w', 'v1')", "already exists"),
        ("delete_branch('w', 'main')", "cannot be deleted"),
        ("delete_branch('w', 'nothing')", "not found"),
        ("delete_tag('w', 'nothing')", "not found"),
        ("reset_branch('w', 'nothing', 'v1')", "not found"),
        ("rollback_to_snapshot('w', '{dev}')", "not in the history of branch 'main'"),
        ("rollback_to_snapshot('w', 'nothing')", "nothing"),
        ("rollback_to_snapshot('`w@v1`', '{first}')", "name a branch"),
        ("rollback_to_timestamp('w', TIMESTAMP '1999-01-01')", "1999"),
        ("set_current_snapshot('w')", "either snapshot_id or ref"),
        ("set_current_snapshot('w', '{first}', 'v1')", "either snapshot_id or ref"),
        ("fast_forward('w', 'main', 'dev')", "has commits that 'dev' has not"),
        ("cherrypick_snapshot('w', '{clash}')", "conflict"),
        ("merge('w', 'clash')", "conflict"),
        ("merge('w', 'nothing')", "not found"),
        ("revert_snapshot('w', '{dev}')", "not in the history"),
        ("expire_snapshots(table => 'w', retain_last => -1)", "retain_last is -1"),
        ("pack('w', small_bytes => -1)", "-1"),
        ("migrate('w')", "already"),
    ],
)  # fmt: skip
def test_a_call_that_fails_changes_nothing(pair: Pair, text: str, message: str) -> None:
    before = pair.files()
    assert message in pair.error(text)
    assert pair.files() == before


def test_conflicts_are_rows_of_a_dry_run(pair: Pair) -> None:
    (row,) = pair.call("merge('w', 'clash', dry_run => true)")
    assert row["current_snapshot_id"] is None
    assert row["conflicts"]
    assert all(each.startswith("/v: ") for each in row["conflicts"])


def test_hostile_names_of_refs_are_names_or_errors(pair: Pair) -> None:
    before = state(pair.called)
    made = []
    for name in [*HOSTILE, "a'b", "x" * 300]:
        escaped = name.replace("\\", "\\\\").replace("'", "\\'")
        try:
            made += pair.spark.sql(f"CALL calls.system.create_branch('w', '{escaped}')").collect()
        except PySparkException:
            continue
    assert {row["branch"] for row in made} == pair.called.list_branches() - {
        "main", "dev", "ahead", "clash",
    }  # fmt: skip
    assert {k: v for k, v in state(pair.called).items() if k in before} == before
    assert [path.name for path in (pair.folder / "warehouse").iterdir()] == ["w"]


# Procedures that run Spark jobs, in a Python process that drives the session of the statement


def make_files(folder: Path) -> list[Path]:
    rng = np.random.default_rng(19)
    paths = [folder / f"day{k}.nc" for k in range(3)]
    for k, path in enumerate(paths):
        values = rng.normal(size=(4, 5))
        dataset = xr.Dataset({"t": (("time", "x"), values)}, {"time": 4 * k + np.arange(4)})
        dataset.to_netcdf(path, engine="h5netcdf")
    return paths


def test_files_are_ingested_and_rechunked(pair: Pair) -> None:
    spark, paths = pair.spark, make_files(pair.folder)
    default = spark._jvm.SparkSession.getDefaultSession().get()  # type: ignore[union-attr]
    files, main = pair.files(), pair.words["main"]
    spark.sparkContext.setLocalProperty("spark.jobGroup.id", "of the statement")
    try:
        named = f"table => 'w.obs', sources => ARRAY('{pair.folder}/day*.nc'), concat_dim => 'time'"
        (row,) = pair.call(f"ingest({named}, chunks => MAP('time', 2), dry_run => true)")
        assert tuple(row) == (3, 0, 6, 0, 3 * 4 * 5 * 8, main, None)
        assert pair.files() == files
        (row,) = pair.call(f"ingest({named}, chunks => MAP('time', 2), message => 'days')")
        assert spark.sparkContext.statusTracker().getJobIdsForGroup("of the statement")
    finally:
        spark.sparkContext.setLocalProperty("spark.jobGroup.id", None)  # type: ignore[arg-type]
    ingest(spark, paths, pair.copy, group="obs", concat_dim="time", chunks={"time": 2})
    assert_same_group(pair)
    tip = pair.called.lookup_branch("main")
    assert (row["files"], row["previous_snapshot_id"], row["current_snapshot_id"]) == (3, main, tip)
    assert next(pair.called.ancestry(branch="main")).message == "days"

    files = pair.files()
    (row,) = pair.call("rechunk('calls.w.obs', MAP('time', 12), dry_run => true)")
    assert tuple(row) == (1, 1, 3 * 4 * 5 * 8, tip, None)
    assert pair.files() == files
    (row,) = pair.call("rechunk('w.obs', MAP('time', 6), codecs => ARRAY('zstd'))")
    assert (row["arrays"], row["chunks"], row["previous_snapshot_id"]) == (1, 2, tip)
    rechunk(spark, pair.copy, "obs", chunks={"time": 6}, codecs=["zstd"])
    assert_same_group(pair)
    assert spark._jvm.SparkSession.getDefaultSession().get().equals(default)  # type: ignore[union-attr]


def assert_same_group(pair: Pair) -> None:
    """Documents and chunks of the group are the same in the repository and its copy."""
    stores = [each.readonly_session("main").store for each in (pair.called, pair.copy)]
    groups = [zarr.open_group(store, path="obs", mode="r") for store in stores]
    for name in ("t", "time"):
        one, other = (group[name] for group in groups)
        assert one.metadata.to_dict() == other.metadata.to_dict()
        np.testing.assert_array_equal(one[:], other[:])  # type: ignore[index]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("ingest('w.obs', ARRAY('/nothing/*.nc'))", "/nothing/*.nc"),
        ("rechunk('w.nothing', MAP('time', 12))", "no group or array 'w.nothing'"),
        ("rechunk('w.v', codecs => ARRAY('{{'))", "is not JSON"),
    ],
)
def test_a_job_that_fails_changes_nothing(pair: Pair, text: str, message: str) -> None:
    before = pair.files()
    assert message in pair.error(text)
    assert pair.files() == before


def test_every_procedure_that_changes_something_has_a_dry_run() -> None:
    tested = {text.partition("(")[0] for text, _ in CALLS}
    tested |= {"rollback_to_timestamp", "remove_orphan_files", "pack", "unpack"}
    tested |= {"ingest", "rechunk"}
    tested |= {"migrate", "confirm_migration"}
    assert PROCEDURES.keys() - READING == tested
    for name, procedure in PROCEDURES.items():
        parameters = [each.name for each in procedure.parameters]
        assert parameters[0] == "table"
        assert ("dry_run" in parameters) == (name not in READING)
