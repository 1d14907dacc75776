"""Files around the package: they install anywhere, and say the same things as one another."""

import ast
import os
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
PROMISED = {"demo", "test", "check", "lint", "types", "format", "compat", "spark", "bench", "clean"}


def test_constraints_are_exact_versions_and_nothing_else() -> None:
    lines = (ROOT / "constraints.txt").read_text().splitlines()
    assert len(lines) > 40
    wrong = [line for line in lines[1:] if not re.fullmatch(r"[\w.\-]+==[\w.!+\-]+", line)]
    assert wrong == []


def test_make_alone_lists_the_targets() -> None:
    done = subprocess.run(["make"], cwd=ROOT, capture_output=True, text=True, check=True)  # noqa: S607 -- whichever make the user has
    assert set(re.findall(r"^  make ([a-z-]+) ", done.stdout, re.MULTILINE)) >= PROMISED


def test_ci_runs_what_a_developer_runs() -> None:
    script = ROOT / ".ci" / "run"
    assert os.access(script, os.X_OK)
    commands = script.read_text().splitlines()
    assert "export FRAZIL_STRICT=1" in commands
    assert [line for line in commands if line.startswith("make ")] == [
        "make lint types",
        "make test",
    ]


def fixed_example_counts(source: str) -> list[int]:
    """Lines that give hypothesis a number of examples which the deep profile does not raise."""
    return [
        keyword.value.lineno
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Call)
        for keyword in node.keywords
        if keyword.arg == "max_examples" and isinstance(keyword.value, ast.Constant)
    ]


def test_the_deep_profile_reaches_every_property() -> None:
    """Use `max_examples=scaled(20)` of tests/examples_count.py instead of a bare number."""
    profiles = ROOT / "tests" / "conftest.py"
    wrong = [
        f"{path.relative_to(ROOT)}:{line}"
        for path in sorted((ROOT / "tests").rglob("*.py"))
        if path != profiles
        for line in fixed_example_counts(path.read_text())
    ]
    assert wrong == []


def test_a_fixed_number_of_examples_is_noticed() -> None:
    assert fixed_example_counts("few = settings(\n    max_examples=5)") == [2]
    assert fixed_example_counts("few = settings(max_examples=scaled(5), deadline=None)") == []


def test_the_deep_profile_multiplies_the_examples() -> None:
    count = "import tests.conftest; from tests.examples_count import scaled; print(scaled(12))"
    for profile, expected in [("ci", 12), ("local", 12), ("deep", 240)]:
        environment = {**os.environ, "HYPOTHESIS_PROFILE": profile}
        done = subprocess.run(
            [sys.executable, "-c", count],
            cwd=ROOT, env=environment, capture_output=True, text=True, check=True,
        )  # fmt: skip
        assert int(done.stdout) == expected, profile
