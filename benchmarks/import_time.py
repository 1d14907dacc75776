"""How long `import` takes, in a Python that has imported nothing yet."""

from pathlib import Path
from types import ModuleType

from benchmarks.new_process import run_in_new_process
from benchmarks.timing import Stopwatch


def fresh_import(engine: ModuleType, root: Path, stopwatch: Stopwatch) -> None:
    del root
    # Loading is lazy in some packages, so a name is asked for as well.
    code = f"import {engine.__name__} as engine; engine.Repository"
    stopwatch.phases["import"] = run_in_new_process(code)


STAGES = {"import": fresh_import}
