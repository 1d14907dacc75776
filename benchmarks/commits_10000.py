"""Small commits, tags and the ancestry in a repository of 10,000 commits."""

from pathlib import Path
from types import ModuleType

from benchmarks.commits_300 import build_of, change
from benchmarks.timing import Stopwatch


def build(engine: ModuleType, root: Path, stopwatch: Stopwatch) -> None:
    """Not measured, and always by frazil."""
    del engine, stopwatch
    build_of(root, 10_000)


STAGES = {"build": build, "change": change}
