"""frazil's Java: what janino compiles for users, a JDK compiles too, and a wheel has it."""

import shutil
import subprocess
import tomllib
from fnmatch import fnmatch
from pathlib import Path

import pyspark
import pytest

from frazil.spark.native.jar import SOURCES

ROOT = Path(__file__).parents[3]
JARS = Path(pyspark.__file__).parent / "jars"


def test_a_jdk_compiles_the_sources(tmp_path: Path) -> None:
    """Janino accepts some things that are no Java, and its errors are short."""
    compiler = shutil.which("javac")
    if compiler is None:
        pytest.skip("no JDK here")
    sources = sorted(map(str, SOURCES.rglob("*.java")))
    command = [compiler, "-nowarn", "-d", str(tmp_path), "-cp", f"{JARS}/*", *sources]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "frazil" / "spark" / "Source.class").exists()


def test_wheels_have_the_sources() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    patterns = project["tool"]["setuptools"]["package-data"]["frazil"]
    package = ROOT / "src" / "frazil"
    for path in SOURCES.rglob("*.java"):
        name = path.relative_to(package).as_posix()
        assert any(fnmatch(name, pattern) for pattern in patterns), name
