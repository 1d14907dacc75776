"""Things taken out of all history by executors: the same numbers and files as locally."""

import shutil
from pathlib import Path

import icechunk
import pytest
import zarr
from pyspark.sql import SparkSession

import frazil
from frazil.errors import SnapshotNotFoundError
from frazil.ids import SnapshotId
from frazil.maintenance.purge.purge_message import plan_purge_messages
from frazil.maintenance.purge.purge_path import plan_purge_path, purge_path
from frazil.paths import NodePath
from frazil.spark.actions.purge import purge_messages
from frazil.spark.actions.purge import purge_path as purge_there
from tests.spark.repositories import make_weather
from tests.unit.maintenance.contents import contents_of

pytestmark = pytest.mark.spark

PATH = "/pressure"


@pytest.fixture
def twins(tmp_path: Path) -> tuple[frazil.Repository, frazil.Repository]:
    """Chunks of the array are in packs, alone and with those of others."""
    repo = make_weather(tmp_path / "here")
    repo.unpack(branch="main")
    repo.pack(branch="main", small_bytes=4000, pack_bytes=20_000)
    with repo.transaction("main", message=f"about {PATH}") as store:
        zarr.open_group(store, mode="r+").attrs["see"] = "pressure"
    repo.create_tag("then", repo.lookup_branch("main"))
    shutil.copytree(tmp_path / "here", tmp_path / "there")
    here, there = (
        frazil.Repository.open(frazil.local_filesystem_storage(str(tmp_path / name)))
        for name in ("here", "there")
    )
    return here, there


def test_a_path_is_purged_as_it_is_locally(
    spark: SparkSession, twins: tuple[frazil.Repository, frazil.Repository], tmp_path: Path
) -> None:
    here, there = twins
    there.readonly_session("main")  # in memory, and not to be believed afterwards
    local = plan_purge_path(here.engine, NodePath(PATH))
    planned = purge_there(spark, there, PATH, dry_run=True)
    assert contents_of(there.engine) == contents_of(here.engine)
    told = list[str]()
    done = purge_there(spark, there, PATH, progress=lambda each: told.append(each.doing))
    purge_path(here.engine, local)
    for result in (planned, done):
        assert (
            result.snapshots, result.transaction_logs, result.manifests, result.chunks,
            result.chunk_bytes, result.nodes,
        ) == (
            len(local.snapshots), len(local.logs), len(local.manifests), len(local.chunks),
            local.chunk_bytes, (PATH,),
        )  # fmt: skip
        assert [tuple(row) for row in result.remaining.collect()] == [
            (each.kind, each.place, each.text) for each in local.remaining
        ]
    assert local.chunk_bytes
    assert len(local.snapshots) >= 2
    assert contents_of(there.engine) == contents_of(here.engine)
    for folder in ("chunks", "snapshots"):
        here_files, there_files = (
            {file.name for file in (tmp_path / place / folder).iterdir()}
            for place in ("here", "there")
        )
        assert there_files - set(done.commits.values()) <= here_files
    assert "Reading snapshots" in told
    listed = {(row["kind"], row["action"]) for row in done.files.collect()}
    assert {("snapshots", "overwritten"), ("transactions", "overwritten")} <= listed
    reference = icechunk.Repository.open(icechunk.local_filesystem_storage(str(tmp_path / "there")))
    assert reference.readonly_session(tag="then").store is not None
    assert purge_there(spark, there, PATH, dry_run=True).snapshots == 0


def test_a_message_is_purged_as_it_is_locally(
    spark: SparkSession, twins: tuple[frazil.Repository, frazil.Repository]
) -> None:
    here, there = twins
    commit = here.lookup_branch("main")
    local = plan_purge_messages(here.engine, [SnapshotId.parse(commit)])
    done = purge_messages(spark, there, [commit])
    assert (done.snapshots, done.backups) == (len(local.snapshots), len(local.backups))
    assert there.lookup_snapshot(commit).message == "(redacted)"
    assert local.backups
    opened = frazil.Repository.open(there.storage)
    assert plan_purge_messages(opened.engine, [SnapshotId.parse(commit)]).is_empty
    with pytest.raises(SnapshotNotFoundError):
        purge_messages(spark, there, ["VY76P925PRY57WFEK410"])
