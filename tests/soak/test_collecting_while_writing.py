"""A writer that commits while garbage is collected in a loop loses nothing."""

import subprocess
import sys
from pathlib import Path

import icechunk
import pytest
import zarr

from tests.soak.collecting import collect, create, read

ROOT = Path(__file__).parents[2]


def run(path: Path, seconds: float) -> None:
    """The writer is another process, as it would be."""
    create(path)
    command = [sys.executable, "-m", "tests.soak.collecting", str(path), str(seconds)]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as writer:
        meanwhile = collect(path, lambda: writer.poll() is None)
        out, _ = writer.communicate(timeout=120)
    assert writer.returncode == 0, out
    commits, *values = map(int, out.split())
    assert read(path) == values
    assert commits > 5
    assert meanwhile["collections"] > 2  # commits and collections go in turns
    assert meanwhile["collections"] > commits / 50
    assert meanwhile["chunks"] > 0  # or nothing was put at risk
    reference = icechunk.Repository.open(icechunk.local_filesystem_storage(str(path)))
    store = reference.readonly_session("main").store
    assert zarr.open_array(store, path="a", mode="r")[:].tolist()[::8] == values  # type: ignore[union-attr]  # an array


def test_nothing_is_lost_in_seconds(tmp_path: Path) -> None:
    run(tmp_path / "repo", 6)


@pytest.mark.long
@pytest.mark.soak
@pytest.mark.timeout(900)
def test_nothing_is_lost_in_minutes(tmp_path: Path) -> None:
    run(tmp_path / "repo", 240)
