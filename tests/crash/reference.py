"""The reference killed at its system calls, by strace: it is no Python that could be watched."""

import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import icechunk
import zarr

from frazil import Repository, local_filesystem_storage
from tests.crash.reference_commits import storage

ROOT = Path(__file__).parents[2]
CALLS = "rename,renameat,renameat2,link,linkat,mkdir,mkdirat"
SYNCS = "fsync,fdatasync,sync,syncfs,sync_file_range"
STILL_WAITING_S = 120


def is_possible() -> bool:
    return shutil.which("strace") is not None


def _traced(folder: Path, *options: str) -> str:
    """What strace says of the commits of the reference."""
    log = folder / "trace"
    script = [sys.executable, "-B", "-m", "tests.crash.reference_commits", "commit", str(folder)]
    subprocess.run(
        [str(shutil.which("strace")), "-f", "-qq", "-o", str(log), *options, *script],
        cwd=ROOT, check=False, capture_output=True, timeout=STILL_WAITING_S,
    )  # fmt: skip
    return log.read_text()


def _restored(folder: Path) -> Path:
    work = folder / "work"
    shutil.rmtree(work, ignore_errors=True)
    shutil.copytree(folder / "template", work)
    return work


def prepare(folder: Path) -> None:
    template = folder / "template"
    template.mkdir(parents=True)
    script = [sys.executable, "-m", "tests.crash.reference_commits", "create", str(template)]
    subprocess.run(script, cwd=ROOT, check=True, capture_output=True, timeout=STILL_WAITING_S)


def syncs(folder: Path) -> int:
    """How often the commits of the reference make something durable."""
    found = _traced(_restored(folder), "-e", f"trace={SYNCS}")
    return len(re.findall(rf"\b({SYNCS.replace(',', '|')})\(", found))


def problems(folder: Path) -> Iterator[str]:
    """What is wrong after a kill at each call in turn; empty for nothing."""
    calls = len(_traced(_restored(folder), "-e", f"trace={CALLS}").splitlines())
    for number in range(1, calls + 1):
        work = _restored(folder)
        _traced(work, "-e", f"trace={CALLS}", "-e", f"inject={CALLS}:signal=KILL:when={number}")
        yield _problem(work)


def _problem(work: Path) -> str:
    report = work / "report"
    told = set(report.read_text().split()) if report.exists() else set[str]()
    try:
        repo = icechunk.Repository.open(storage(work))
        missing = told - {info.id for info in repo.ancestry(branch="main")}
        if missing:
            return f"lost: {missing}"
        session = repo.writable_session("main")
        zarr.open_array(session.store, path="a")[:] = 9
        session.commit("next")
    except icechunk.IcechunkError as error:
        return str(error)
    errors = Repository.open(local_filesystem_storage(str(work / "repo"))).verify().errors
    return errors[0].text if errors else ""
