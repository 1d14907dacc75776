"""Time that `import` takes, in a Python that has imported nothing yet.

Frazil loads its classes when they are first asked for, the reference loads everything at once. So
the second row asks for the class that every program begins with.
"""

from pathlib import Path
from types import ModuleType

from benchmarks.new_process import run_in_new_process
from benchmarks.timing import Stopwatch


def fresh_import(engine: ModuleType, root: Path, stopwatch: Stopwatch) -> None:
    del root
    name = engine.__name__
    stopwatch.phases["import"] = run_in_new_process(f"import {name}")
    stopwatch.phases["import, Repository"] = run_in_new_process(f"import {name}; {name}.Repository")


STAGES = {"import": fresh_import}
