"""The jar of frazil's Java classes, compiled by the compiler that Spark carries.

Spark generates code at run time, so it brings a Java compiler (janino). frazil ships its Java as
text and compiles it once for each Spark, in a second or two, into the user's cache:

    <cache>/frazil/frazil-spark-<version of Spark>-<hash>.jar

The hash is that of the sources and of Spark's own jars. No JDK is needed.
"""

import hashlib
import os
import re
import shutil
import subprocess
import tempfile
import zipfile
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path

import pyspark

from frazil.errors import SessionStateError
from frazil.spark.runtime.java import cache_folder, find_java

SOURCES = Path(__file__).parent / "java"
PREFIX = "frazil-spark-"  # of the jar's name
_COMPILER = "org.codehaus.commons.compiler.samples.CompilerDemo"  # janino as a program
_MANIFEST = "META-INF/MANIFEST.MF"
_SERVICE = "META-INF/services/org.apache.spark.sql.sources.DataSourceRegister"
_PROVIDER = "frazil.spark.Source"
_EPOCH = (1980, 1, 1, 0, 0, 0)  # the same sources give the same jar
_LAYOUT = "2"  # of the jar: another for every change of what is written beside the classes
_TIMEOUT_S = 300
_MOST_TEXT = 600  # of what a compiler says


def find_jar(
    environ: Mapping[str, str], *, spark_home: str | os.PathLike[str] | None = None
) -> Path:
    """Path of the jar for a Spark, compiled if it is not there yet.

    The Spark is that of `spark_home`, by default the one that PySpark would start: SPARK_HOME, or
    else the one that the package `pyspark` brings. Raises SessionStateError if the jar cannot be
    compiled, JavaNotFoundError without a Java.
    """
    jars = find_spark_jars(environ, spark_home)
    name = f"{PREFIX}{spark_version(jars)}-{_digest(jars)}.jar"
    folders = (cache_folder(environ), Path(tempfile.gettempdir()) / f"frazil-{os.getuid()}")
    for folder in folders:
        if (folder / name).exists() and _is_safe(folder):
            return folder / name
    for folder in folders:
        scratch = _make_scratch(folder)
        if scratch is not None:
            try:
                built = scratch / name
                sources = list_sources(spark_version(jars))
                _write_jar(built, compile_sources(sources, jars, scratch, environ))
                return built.replace(folder / name)  # several processes may do this at once
            finally:
                shutil.rmtree(scratch, ignore_errors=True)
    tried = " and ".join(map(str, folders))
    raise SessionStateError(f"frazil's jar cannot be kept: {tried} cannot be written by you alone")


def find_spark_jars(
    environ: Mapping[str, str], spark_home: str | os.PathLike[str] | None = None
) -> Path:
    """Folder of the jars of a Spark; raises SessionStateError if there are none."""
    home = Path(spark_home or environ.get("SPARK_HOME") or Path(pyspark.__file__).parent)
    jars = home / "jars"
    if any(jars.glob("janino-*.jar")):
        return jars
    raise SessionStateError(
        f"{home} has no Spark, or only a client of it: there is no jars/janino-*.jar"
    )


def spark_version(jars: Path) -> str:
    """Version of the Spark whose jars these are, as `spark.version` has it."""
    for path in sorted(jars.glob("spark-core_*.jar")):
        return re.sub(r"^spark-core_[\d.]+-|\.jar$", "", path.name)
    return "unknown"


def list_sources(version: str) -> list[Path]:
    """Sources for one version of Spark.

    `since-4.2/` has those that name classes of Spark 4.2; they replace files of the same name.
    """
    found = {path.relative_to(SOURCES): path for path in SOURCES.glob("frazil/**/*.java")}
    for folder in sorted(SOURCES.glob("since-*"), key=lambda each: _number(each.name)):
        if _number(folder.name) <= _number(version):
            found |= {path.relative_to(folder): path for path in folder.rglob("*.java")}
    return sorted(found.values())


def _number(version: str) -> tuple[int, ...]:
    """The first two numbers of a version; a Spark that tells none is the oldest."""
    return tuple(map(int, re.findall(r"\d+", version)[:2]))


@cache
def sources_digest() -> str:
    """Hash of the Java sources, which differs from that of another version of frazil."""
    digest = hashlib.sha256(usedforsecurity=False)
    for path in sorted(SOURCES.rglob("*.java")):
        name = path.relative_to(SOURCES).as_posix()
        digest.update(name.encode() + b"\0" + path.read_bytes() + b"\0")
    return digest.hexdigest()[:16]


def _digest(jars: Path) -> str:
    """The sources, and the Spark: vendors have other classes under the same version."""
    parts = [f"{path.name} {path.stat().st_size}" for path in sorted(jars.glob("spark-*.jar"))]
    text = "\n".join([_LAYOUT, sources_digest(), *parts])
    return hashlib.sha256(text.encode(), usedforsecurity=False).hexdigest()[:16]


def _make_scratch(folder: Path) -> Path | None:
    """A new folder inside of one that no other user can write to, None if that is impossible."""
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        return Path(tempfile.mkdtemp(dir=folder, prefix="jar-")) if _is_safe(folder) else None
    except OSError:  # a home that cannot be written to
        return None


def _is_safe(folder: Path) -> bool:
    """True if no other user can put a jar into a folder: Spark runs what is in it."""
    found = folder.stat()
    return found.st_uid in (os.getuid(), 0) and not found.st_mode & 0o002


def compile_sources(
    sources: list[Path], jars: Path, scratch: Path, environ: Mapping[str, str]
) -> Path:
    """Compiles with janino, in a JVM of its own; returns the folder of the classes."""
    classes = scratch / "classes"
    classes.mkdir()
    arguments = scratch / "java-arguments"  # a command line has not room for all jars
    arguments.write_text("\n".join(map(_quote, _arguments(sources, jars, classes))))
    java = find_java(environ).home / "bin" / "java"
    try:
        done = subprocess.run(
            [java, f"@{arguments}"],
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_TIMEOUT_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise SessionStateError(f"frazil's Java classes could not be compiled: {error}") from error
    if done.returncode:
        raise SessionStateError(f"frazil's Java classes could not be compiled: {_reason(done)}")
    return classes


def _arguments(sources: list[Path], jars: Path, classes: Path) -> Iterator[str]:
    yield from ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xshare:auto")
    yield from ("-cp", f"{jars}/*", _COMPILER)
    yield from ("-d", str(classes), "-encoding", "UTF-8", "-g:lines,source")
    yield from ("-classpath", os.pathsep.join(map(str, sorted(jars.glob("*.jar")))))
    yield from map(str, sources)


def _quote(argument: str) -> str:
    """An argument in a file of arguments of Java."""
    return '"' + argument.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _reason(done: subprocess.CompletedProcess[str]) -> str:
    """The first lines of what a compiler said, without its stack."""
    told = [line.strip() for line in (done.stderr + done.stdout).splitlines()]
    kept = [line for line in told if line and not line.startswith(("at ", "..."))]
    return "\n  ".join(kept[:5])[:_MOST_TEXT] or f"Java ended with {done.returncode}"


def _write_jar(jar: Path, classes: Path) -> None:
    with zipfile.ZipFile(jar, "w", zipfile.ZIP_DEFLATED) as archive:
        told = f"Manifest-Version: 1.0\r\nImplementation-Version: {sources_digest()}\r\n\r\n"
        archive.writestr(zipfile.ZipInfo(_MANIFEST, _EPOCH), told)
        for path in sorted(classes.rglob("*.class")):
            name = path.relative_to(classes).as_posix()
            archive.writestr(zipfile.ZipInfo(name, _EPOCH), path.read_bytes())
        archive.writestr(zipfile.ZipInfo(_SERVICE, _EPOCH), _PROVIDER + "\n")
