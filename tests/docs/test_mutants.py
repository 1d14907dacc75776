"""Tests that pages name for their promises are run and can fail: each finds its rule's mutant."""

import json
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tests.docs.mutants import MUTANTS, Mutant
from tests.docs.test_security import CITED
from tests.docs.test_spec_coverage import LINK, ROWS

ROOT = Path(__file__).parents[2]
# Rules of docs/spec-coverage.md whose test has no mutant yet. It may only become shorter.
WITHOUT = {
    "CAS-1", "REPO-9", "LOG-5", "LOG-6", "SNAP-2", "SNAP-6",  # their tests are being rewritten
    "SNAP-7", "SNAP-10", "SNAP-11", "SNAP-12", "SNAP-13", "LOG-3", "LOG-10", "LOG-12", "LOG-15",
    "LOG-17", "REQ-1", "REQ-2", *(f"FACT-{number}" for number in range(1, 29) if number != 24),
}  # fmt: skip


# Tests of the kit that we ship run where somebody derives a class from them.
KIT = {"src/frazil/testing/objectstore.py": "tests/unit/objectstore/test_contract.py"}
NAMED = {(link["file"], link["test"]) for row in ROWS.values() if (link := LINK.search(row))}
PROMISES = sorted({(KIT.get(file, file), name) for file, name in {*NAMED, *CITED}})
NOT_RUN = {"skip", "xfail", "long", "soak"}  # `skipif` fails in CI, where FRAZIL_STRICT is set


@pytest.fixture(scope="module")
def outcome() -> dict[str, dict[str, Any]]:
    """One process runs all of them: a mutant must not stay behind in this one."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.docs.mutants", *sorted({file for file, _ in PROMISES})],
        cwd=ROOT, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.stdout.startswith("{"), done.stderr
    found: dict[str, dict[str, Any]] = json.loads(done.stdout)
    return found


def test_the_tests_that_pages_name_are_run(outcome: dict[str, dict[str, Any]]) -> None:
    """By pytest, in `make test`: a function of that name is not enough."""
    marks = outcome["collected"]
    files = {test.partition("::")[0] for test in marks}
    tests = {f"{file}::{name}" for file, name in PROMISES if name}
    assert sorted(tests - marks.keys()) == []
    assert sorted({file for file, _ in PROMISES} - files) == []
    left_out = {test: NOT_RUN.intersection(marks[test]) for test in tests}
    assert {test: found for test, found in left_out.items() if found} == {}
    assert len(tests) > 100


def test_without_a_mutant_they_all_pass(outcome: dict[str, dict[str, Any]]) -> None:
    assert {mutant.test for mutant in MUTANTS} == outcome["sound"].keys()
    assert [name for name, passed in outcome["sound"].items() if not passed] == []


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_the_mutant_is_found(mutant: Mutant, outcome: dict[str, dict[str, Any]]) -> None:
    """By the test itself, not by what it is set up with."""
    assert outcome["found"].get(mutant.name) == "call"


def test_every_rule_has_a_mutant_or_is_listed() -> None:
    mutated = {mutant.rule for mutant in MUTANTS}
    assert ROWS.keys() - mutated == WITHOUT
    assert len(mutated) > 50


def test_a_mutant_is_of_the_test_that_its_rule_names() -> None:
    wrong = []
    for mutant in MUTANTS:
        link = re.search(r"::(\w+)`", ROWS.get(mutant.rule, ""))
        if link and mutant.test.rpartition("::")[2] != link[1]:
            wrong.append(mutant.name)
    assert wrong == []
    twice = Counter((mutant.rule, mutant.test, mutant.targets, mutant.make) for mutant in MUTANTS)
    assert max(twice.values()) == 1
