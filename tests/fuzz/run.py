"""The fuzzer: `python -m tests.fuzz.run --seconds 30 [--targets manifest,kerchunk]`.

One process after the other, one for each target: atheris follows which branches of frazil an input
reaches, keeps those that reach new ones, and mutates these. What it keeps, and what it finds, is
below `.build/fuzz/TARGET`: `corpus/` and `crash-*`, `timeout-*`, `oom-*`. A finding ends its
target; `python -m tests.fuzz.run --replay FILE --targets TARGET` shows it again.
"""

# ruff: noqa: T201 - a program that prints

import argparse
import subprocess
import sys
from hashlib import sha256
from pathlib import Path

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / ".build" / "fuzz"
NAMES = (
    "envelope",
    "snapshot",
    "manifest",
    "transaction_log",
    "repo_info",
    "config_yaml",
    "flexbuffers",
    "old_snapshot",
    "old_manifest",
    "old_log",
    "ref",
    "kerchunk",
    "inventory",
    "bundle",
    "locations",
    "chunk",
    "zarr_json",
    "url",
)
_MEMORY_MB = 1024
_SLOW_S = 10  # of one input


def fuzz(name: str, folder: Path, flags: list[str]) -> None:
    """Runs until the flags of libFuzzer say stop, or something is found; never returns."""
    import atheris  # type: ignore[import-untyped]  # noqa: PLC0415 -- changes imports; no types

    with atheris.instrument_imports(include=["frazil", "tests.fuzz.planted"]):
        if name == "planted":  # a bug, to see that bugs are found
            from tests.fuzz.planted import PLANTED  # noqa: PLC0415 -- see above

            target = PLANTED
        else:
            from tests.fuzz.targets import TARGETS  # noqa: PLC0415 -- see above

            target = TARGETS[name]
    corpus = folder / name / "corpus"
    corpus.mkdir(parents=True, exist_ok=True)
    for seed in target.seeds():
        (corpus / sha256(seed).hexdigest()[:20]).write_bytes(seed)
    limits = [f"-rss_limit_mb={_MEMORY_MB}", f"-timeout={_SLOW_S}", "-max_len=8192"]
    found = f"-artifact_prefix={folder / name}/"
    atheris.Setup([sys.argv[0], *limits, found, *flags, str(corpus)], target.attempt)
    atheris.Fuzz()


def replay(name: str, file: Path) -> None:
    from tests.fuzz.targets import TARGETS  # noqa: PLC0415 -- only here

    TARGETS[name].attempt(file.read_bytes())


def run_all(names: list[str], seconds: int, seed: int) -> int:
    """The number of targets with findings."""
    bad = 0
    for name in names:
        command = [sys.executable, "-m", "tests.fuzz.run", "--one", name]
        flags = [f"-max_total_time={seconds}", f"-seed={seed}", "-print_final_stats=1"]
        done = subprocess.run(
            [*command, "--", *flags], cwd=ROOT, capture_output=True, text=True, check=False
        )
        log = FOLDER / name / "log.txt"
        log.parent.mkdir(parents=True, exist_ok=True)
        log.write_text(done.stdout + done.stderr)
        inputs = [line for line in log.read_text().splitlines() if "number_of_executed" in line]
        print(f"{name:16} {'ok' if not done.returncode else 'FOUND'} {' '.join(inputs)}")
        if done.returncode:
            bad += 1
            print(f"  see {log}; {sorted(str(f) for f in log.parent.glob('*-*'))}")
    return bad


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--seconds", type=int, default=30, help="for each target")
    arguments.add_argument("--targets", default=",".join(NAMES))
    arguments.add_argument("--seed", type=int, default=0, help="0: another one each time")
    arguments.add_argument("--folder", type=Path, default=FOLDER)
    arguments.add_argument("--replay", type=Path)
    arguments.add_argument("--one", help="in this process")
    arguments.add_argument("flags", nargs="*", help="for libFuzzer, after --")
    given = arguments.parse_args()
    if given.one:
        fuzz(given.one, given.folder, given.flags)
    elif given.replay:
        replay(given.targets, given.replay)
    else:
        sys.exit(run_all(given.targets.split(","), given.seconds, given.seed))


if __name__ == "__main__":
    main()
