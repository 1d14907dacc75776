"""The models of the commit protocol: each planted bug has a case, and a small one is checked."""

import re

import pytest

from scripts.prove import PROOFS, Case, check, read_cases, run

CASES = read_cases()
QUICK = [case for case in CASES if case.quick]


def planted_bugs(model: str) -> set[str]:
    text = (PROOFS / f"{model}.tla").read_text()
    named = re.findall(r'Mutant (?:=|#) "([^"]+)"', text)
    for group in re.findall(r"Mutant \\(?:not)?in \{([^}]*)\}", text):
        named += re.findall(r'"([^"]+)"', group)
    return set(named)


@pytest.mark.parametrize("model", ["Commit", "GroupCommit"])
def test_every_planted_bug_has_a_case_that_must_find_it(model: str) -> None:
    cases = [case for case in CASES if case.model == model]
    assert planted_bugs(model) == {case.bug for case in cases if case.finds is not None}
    assert planted_bugs(model) != set()
    assert {case.finds for case in cases} - {None} <= {*cases[0].invariants, "Deadlock"}


@pytest.mark.parametrize("model", ["Commit", "GroupCommit"])
def test_every_invariant_is_violated_by_some_planted_bug(model: str) -> None:
    cases = [case for case in CASES if case.model == model]
    assert {case.finds for case in cases} >= {*cases[0].invariants}


def test_the_readme_names_every_invariant() -> None:
    text = (PROOFS / "README.md").read_text()
    names = {name for case in CASES for name in case.invariants}
    assert sorted(name for name in names if f"`{name}`" not in text) == []


def find_case(bug: str) -> Case:
    return next(case for case in CASES if case.bug == bug)


def test_a_small_model_holds_and_a_planted_bug_is_found() -> None:
    (holds,) = [check(case) for case in QUICK if case.model == "GroupCommit"]
    assert (holds.expected, holds.violated, holds.error) == (True, None, None)
    assert holds.states > 100
    found = check(find_case("a withdrawal without a fence"))
    assert found.violated == "WithdrawnIsNeverCarried"
    assert found.steps[-1] == "Arrive"  # the carrier's swap, after the withdrawal


@pytest.mark.long
@pytest.mark.timeout(1800)
def test_every_case_comes_out_as_expected() -> None:
    assert run(CASES, processes=2, verbose=False)
