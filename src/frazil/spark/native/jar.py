"""The jar of frazil's Java classes, compiled by the compiler that Spark carries.

Spark generates code at run time, so it brings a Java compiler (janino). frazil ships its Java as
text and compiles it once for each version of Spark, in a second, into the user's cache:

    <cache>/frazil/frazil-spark-<hash>.jar

The hash is that of the sources and of the version of Spark. No JDK is needed.
"""

import hashlib
import os
import shutil
import tempfile
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pyspark
from py4j.java_gateway import JavaGateway  # type: ignore[import-untyped]  # it has no annotations
from py4j.protocol import Py4JError  # type: ignore[import-untyped]

from frazil.errors import SessionStateError
from frazil.spark.runtime.java import cache_folder, find_java

SOURCES = Path(__file__).parent / "java"
_SERVICE = "META-INF/services/org.apache.spark.sql.sources.DataSourceRegister"
_PROVIDER = "frazil.spark.Source"
_EPOCH = (1980, 1, 1, 0, 0, 0)  # the same sources give the same jar


def find_jar(environ: Mapping[str, str] = os.environ) -> Path:
    """Path of the jar for the PySpark that is installed here, compiled if it is not there yet.

    Raises SessionStateError if it cannot be compiled.
    """
    jars = Path(pyspark.__file__).parent / "jars"
    sources = sorted(SOURCES.rglob("*.java"))
    name = f"frazil-spark-{_digest(sources)}.jar"
    for folder in (cache_folder(environ), Path(tempfile.gettempdir()) / "frazil"):
        jar = folder / name
        if jar.exists():
            return jar
        try:
            folder.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryDirectory(dir=folder) as scratch:
                built = Path(scratch) / name
                _write_jar(built, compile_sources(sources, jars, Path(scratch), environ))
                built.replace(jar)  # several processes may do this at once
        except PermissionError:  # a home that cannot be written to
            continue
        return jar
    raise SessionStateError("no folder to keep frazil's jar in: neither the cache nor TMPDIR")


def _digest(sources: list[Path]) -> str:
    digest = hashlib.sha256(pyspark.__version__.encode(), usedforsecurity=False)
    for path in sources:
        digest.update(path.name.encode() + b"\0" + path.read_bytes() + b"\0")
    return digest.hexdigest()[:16]


def compile_sources(
    sources: list[Path], jars: Path, scratch: Path, environ: Mapping[str, str]
) -> Path:
    """Compiles with janino, in a JVM of its own; returns the folder of the classes."""
    classes = scratch / "classes"
    classes.mkdir()
    with _gateway(jars, environ) as java, _explained():
        file = java.jvm.java.io.File
        compiler = java.jvm.org.codehaus.janino.Compiler()
        compiler.setClassPath(_files(java, file, sorted(jars.glob("*.jar"))))
        compiler.setDestinationDirectory(file(str(classes)), False)
        compiler.setDebugLines(True)
        compiler.compile(_files(java, file, sources))
    return classes


@contextmanager
def _explained() -> Iterator[None]:
    try:
        yield
    except Py4JError as error:
        raise SessionStateError(f"frazil's Java classes could not be compiled: {error}") from error


def _files(java: JavaGateway, file: object, paths: list[Path]) -> object:
    files = java.new_array(file, len(paths))
    for i, path in enumerate(paths):
        files[i] = file(str(path))  # type: ignore[operator]  # a class of the JVM
    return files


@contextmanager
def _gateway(jars: Path, environ: Mapping[str, str]) -> Iterator[JavaGateway]:
    """A small JVM with Spark's classes, without Spark, that ends with the block."""
    gateway = JavaGateway.launch_gateway(
        jarpath=str(next(jars.glob("py4j-*.jar"))),
        classpath=f"{jars}/*",
        java_path=str(find_java(environ).home / "bin" / "java"),
        javaopts=["-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC"],
        die_on_exit=True,
        enable_auth=True,
    )
    try:
        yield gateway
    finally:
        gateway.shutdown()
        gateway.java_process.kill()
        gateway.java_process.wait()
        gateway.java_process.stdin.close()  # py4j leaves the pipe that ends the process


def _write_jar(jar: Path, classes: Path) -> None:
    with zipfile.ZipFile(jar, "w", zipfile.ZIP_DEFLATED) as archive:
        for path in sorted(classes.rglob("*.class")):
            name = path.relative_to(classes).as_posix()
            archive.writestr(zipfile.ZipInfo(name, _EPOCH), path.read_bytes())
        archive.writestr(zipfile.ZipInfo(_SERVICE, _EPOCH), _PROVIDER + "\n")
    shutil.rmtree(classes)
