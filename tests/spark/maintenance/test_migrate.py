"""Migrations whose manifests and copies executors make: the same repository as locally."""

import json
import logging
import shutil
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from typer.testing import CliRunner

import frazil
from frazil.cli.main import app
from frazil.maintenance.copying.clone import clone, plan_clone
from frazil.objectstore.local import LocalStore
from frazil.spark.actions.migrate import migrate
from frazil.spark.runtime.executor import spark_executor
from tests.conformance.generations import ARCHIVES, put, repository_files
from tests.conformance.test_migration import seen, theirs
from tests.unit.maintenance.moved import made

pytestmark = pytest.mark.spark


def opened(path: Path) -> frazil.Repository:
    return frazil.Repository.open(frazil.local_filesystem_storage(path))


def files(root: Path) -> set[str]:
    found = {one.relative_to(root).as_posix() for one in root.rglob("*") if one.is_file()}
    return found - {".frazil.lock"}


@pytest.fixture(autouse=True)
def _no_notes_on_containers() -> None:
    logging.getLogger("frazil").setLevel(logging.ERROR)


@pytest.mark.parametrize("generation", ["A1e", "A2d", "A3e"])
def test_executors_write_what_one_process_would(
    generation: str, spark: SparkSession, tmp_path: Path
) -> None:
    [name] = [name for name in ARCHIVES if name.startswith(generation)]
    here = put(repository_files(name), tmp_path / "here")
    there = tmp_path / "there"
    shutil.copytree(here, there)
    expected = opened(here).migrate()
    done = migrate(spark, str(there), progress=False)
    for field in ("generation", "snapshots", "manifests", "copied", "bytes", "in_place"):
        assert getattr(done, field) == getattr(expected, field), field
    rows = {row["old"]: row["new"] for row in done.snapshot_ids.collect()}
    assert rows == expected.snapshot_ids
    assert files(there) == files(here)  # names follow from what is made
    assert seen(theirs(there)) == seen(theirs(here))
    opened(there).confirm_migration()


def test_version_1_is_copied_and_migrated_by_executors(spark: SparkSession, tmp_path: Path) -> None:
    source = made(LocalStore(tmp_path / "source"), spec_version=1)
    done = migrate(spark, str(tmp_path / "source"), tmp_path / "new", progress=False)
    source.migrate(storage=frazil.local_filesystem_storage(tmp_path / "local"))
    assert files(tmp_path / "new") == files(tmp_path / "local")
    assert done.copied == len(files(tmp_path / "new")) - 1
    assert seen(theirs(tmp_path / "new")) == seen(source)
    migrate(spark, str(tmp_path / "source"), progress=False)
    assert seen(opened(tmp_path / "source")) == seen(theirs(tmp_path / "new"))


def test_a_planned_copy_is_made_by_executors(spark: SparkSession, tmp_path: Path) -> None:
    source = made(LocalStore(tmp_path / "source"))
    with spark_executor(spark, source.engine, progress=False) as executor:
        plan = plan_clone(source.engine, LocalStore(tmp_path / "copy"), executor)
        done = clone(plan, executor, check_contents=True)
        assert (done.copied, done.bytes) == (plan.objects, plan.bytes)
        assert seen(theirs(tmp_path / "copy")) == seen(source)
        again = plan_clone(source.engine, LocalStore(tmp_path / "copy"), executor)
        assert clone(again, executor).copied == 0


@pytest.mark.usefixtures("spark")
def test_commands_let_executors_do_it(tmp_path: Path) -> None:
    def run(*arguments: object) -> str:
        answer = CliRunner().invoke(app, [str(one) for one in arguments], catch_exceptions=False)
        assert answer.exit_code == 0, answer.output
        return answer.stdout

    source = made(LocalStore(tmp_path / "source"), spec_version=1)
    done = json.loads(run("migrate", tmp_path / "source", tmp_path / "new", "--spark", "--json"))
    assert (done["generation"], done["in_place"], done["snapshots"]) == ("V1", False, 5)
    assert run("clone", tmp_path / "new", tmp_path / "copy", "--spark").startswith("cloned 5")
    assert seen(opened(tmp_path / "copy")) == seen(source)
