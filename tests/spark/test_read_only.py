"""SQL that may only read, with every PySpark; tests/web/test_sql.py has the explorer's page."""

from pathlib import Path

import numpy as np
import pytest
import zarr
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

import frazil
from frazil.engine.repository import Repository
from frazil.errors import InvalidInputError
from frazil.objectstore.local import LocalStore
from frazil.spark.io.read_only import REFUSED as REFUSED_KIND
from frazil.spark.io.read_only import read_only_session, read_only_sql
from frazil.spark.io.sql import TableSpec
from tests.web.statements import QUERIES, REFUSED

pytestmark = [pytest.mark.spark, pytest.mark.spark_matrix, pytest.mark.long]


def make(path: Path, value: float) -> Path:
    repo = frazil.Repository.create(frazil.local_filesystem_storage(str(path)))
    session = repo.writable_session("main")
    group = zarr.group(session.store).create_group("climate")
    data = np.full((6, 4, 5), value, "f4")
    group.create_array("t2m", data=data, dimension_names=["time", "lat", "lon"])
    group.create_array("lat", data=np.array([-60.0, -20, 20, 60]), dimension_names=["lat"])
    repo.create_tag("v1", session.commit("constant"))
    return path


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A repository, another one beside it, and a text file; nothing of it changes."""
    folder = tmp_path_factory.mktemp("read_only")
    (folder / "secret.txt").write_text("hidden words\n")
    make(folder / "other", 99)
    return make(folder / "repo", 1).parent


@pytest.fixture(scope="module")
def tables(folder: Path) -> dict[str, TableSpec]:
    repository = Repository.open(LocalStore(folder / "repo"))
    return {
        "climate": {"path": repository, "group": "/climate"},
        "repo": {"path": repository, "group": "/"},
    }


@pytest.mark.parametrize("statement", REFUSED)
def test_only_queries_of_the_tables_run(
    spark: SparkSession, folder: Path, tables: dict[str, TableSpec], statement: str
) -> None:
    """Statements are refused before Spark analyses them; of queries it may not find something."""
    text = statement.format(secret=folder / "secret.txt", folder=folder / "other")
    before = sorted(folder.rglob("*"))
    with pytest.raises((InvalidInputError, PySparkException)) as refused:
        read_only_sql(read_only_session(spark), text, tables).collect()
    if not statement.startswith(("SELECT", "WITH", "FROM")) or "WITH (" in statement:
        assert getattr(refused.value, "kind", None) == REFUSED_KIND
    assert "hidden words" not in str(refused.value)
    assert sorted(folder.rglob("*")) == before


@pytest.mark.parametrize("statement", QUERIES)
def test_all_kinds_of_queries_run(
    spark: SparkSession, tables: dict[str, TableSpec], statement: str
) -> None:
    assert read_only_sql(read_only_session(spark), statement, tables).collect()
