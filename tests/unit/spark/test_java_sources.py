"""frazil's Java: what janino compiles for users, a JDK compiles too, and a wheel has it."""

import shutil
import subprocess
import tomllib
from fnmatch import fnmatch
from pathlib import Path

import pyspark
import pytest

from frazil.spark.native.jar import SOURCES, list_sources, spark_version

ROOT = Path(__file__).parents[3]
JARS = Path(pyspark.__file__).parent / "jars"


def test_a_jdk_compiles_the_sources(tmp_path: Path) -> None:
    """Janino accepts some things that are no Java, and its errors are short."""
    compiler = shutil.which("javac")
    if compiler is None:
        pytest.skip("no JDK here")
    sources = list(map(str, list_sources(spark_version(JARS))))
    command = [compiler, "-nowarn", "-d", str(tmp_path), "-cp", f"{JARS}/*", *sources]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "frazil" / "spark" / "Source.class").exists()


def test_classes_that_a_spark_lacks_are_left_out_for_it() -> None:
    """Each file is compiled for some Spark, and a class only once."""
    since = {path for path in SOURCES.rglob("*.java") if "since-4.2" in path.parts}
    assert {path.name for path in since} >= {"Changes.java", "ChangelogCatalog.java"}
    for version, has in (("4.1.4", False), ("4.2.0", True), ("4.3.0", True), ("10.0", True)):
        found = list_sources(version)
        assert (since <= set(found)) == has == bool(since & set(found))
        classes = [path.name for path in found]
        assert len(set(classes)) == len(classes)
        assert {"Catalog.java", "ChangelogCatalog.java"} <= set(classes)
    newest = set(list_sources("10.0"))
    replaced = set(SOURCES.rglob("*.java")) - newest
    assert {path.name for path in replaced} == {"ChangelogCatalog.java"}
    assert list_sources("unknown") == list_sources("4.1")


def test_wheels_have_the_sources() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    patterns = project["tool"]["setuptools"]["package-data"]["frazil"]
    package = ROOT / "src" / "frazil"
    for path in SOURCES.rglob("*.java"):
        name = path.relative_to(package).as_posix()
        assert any(fnmatch(name, pattern) for pattern in patterns), name
