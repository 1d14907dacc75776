"""Python environments made for a test: this one, without some of its packages."""

import subprocess
import sysconfig
import venv
from collections.abc import Collection
from pathlib import Path


def make_environment(folder: Path, *, without: Collection[str]) -> Path:
    """The interpreter of a new environment that has links to all packages but those named."""
    venv.create(folder, with_pip=False, symlinks=True)
    interpreter = folder / "bin" / "python"
    packages = Path(ask(interpreter, "import sysconfig; print(sysconfig.get_path('purelib'))"))
    for entry in Path(sysconfig.get_path("purelib")).iterdir():
        if entry.name.partition("-")[0].partition(".")[0] not in without:
            (packages / entry.name).symlink_to(entry)
    return interpreter


def ask(interpreter: Path, program: str) -> str:
    """What a program prints."""
    done = subprocess.run(
        [interpreter, "-c", program], capture_output=True, text=True, check=True, timeout=120
    )
    return done.stdout.strip()
