"""Garbage collection in workers."""

import subprocess
import sys

SCRIPT = """
import gc
from frazil.spark.runtime.workers import limit_gc
for _ in range(4):
    limit_gc()
frozen = gc.get_freeze_count()
more = [[] for _ in range(1000)]
limit_gc()
print(frozen > 1000, gc.get_freeze_count() <= frozen)
"""


def test_what_is_there_after_a_few_tasks_is_never_looked_at_again() -> None:
    # in a process of its own: freezing is for good
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT], capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == ["True", "True"]
