"""Files around the package: they install anywhere, and say the same things as one another."""

import ast
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml  # type: ignore[import-untyped]  # no stubs are pinned

ROOT = Path(__file__).parents[2]
PROMISED = {"demo", "test", "check", "lint", "types", "format", "compat", "spark", "bench", "clean"}
GROUPS = ["Set up", "Run", "Test", "Check", "Measure", "Docs", "Clean"]
GUIDES = ("CONTRIBUTING.md", "SECURITY.md", "docs/releasing.md", ".github/pull_request_template.md")


def test_constraints_are_exact_versions_and_nothing_else() -> None:
    lines = (ROOT / "constraints.txt").read_text().splitlines()
    assert len(lines) > 40
    wrong = [line for line in lines[1:] if not re.fullmatch(r"[\w.\-]+==[\w.!+\-]+", line)]
    assert wrong == []


def make_help(*arguments: str) -> str:
    # whichever make the user has; inside of `make test` it would name the directory
    command = ["make", "--no-print-directory", *arguments]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    return done.stdout


def described_targets() -> set[str]:
    return set(re.findall(r"^([a-z-]+):.*## ", (ROOT / "Makefile").read_text(), re.MULTILINE))


def test_make_alone_lists_the_targets() -> None:
    listed = re.findall(r"^  make ([a-z-]+) ", make_help(), re.MULTILINE)
    assert set(listed) >= PROMISED
    assert len(listed) == len(set(listed))
    assert make_help("help") == make_help()


def test_make_help_has_groups_and_every_target_is_in_one() -> None:
    lines = make_help().splitlines()
    assert [line for line in lines if line in GROUPS] == GROUPS
    assert lines[0] == GROUPS[0]
    listed = {found[1] for line in lines if (found := re.match(r"  make ([a-z-]+) ", line))}
    phony = re.search(r"^\.PHONY: (.*)$", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert phony is not None
    assert listed == described_targets() == set(phony[1].split())


def test_lint_is_what_pre_commit_runs() -> None:
    lint = (ROOT / "Makefile").read_text().split("\nlint:")[1].split("\n\n")[0]
    commands = re.findall(r"\$\(BIN\)/(.*)", lint)
    assert commands == ["ruff check .", "ruff format --check .", "python -m scripts.lint_words"]


def load_yaml(name: str) -> Any:
    return yaml.safe_load((ROOT / name).read_text())


def test_pre_commit_runs_the_tools_of_the_project_and_downloads_nothing() -> None:
    (repository,) = load_yaml(".pre-commit-config.yaml")["repos"]
    assert repository["repo"] == "local"
    hooks = {hook["id"]: hook for hook in repository["hooks"]}
    assert hooks.keys() == {"ruff-check", "ruff-format", "words", "mypy"}
    for hook in hooks.values():
        assert hook["language"] == "system"
        program = hook["entry"].split()
        assert program[0] in {".venv/bin/ruff", ".venv/bin/mypy", ".venv/bin/python"}
        if program[1:2] == ["-m"]:
            assert (ROOT / program[2].replace(".", "/")).with_suffix(".py").exists()
    assert re.search(hooks["words"]["files"], "src/frazil/errors.py")
    assert re.search(hooks["words"]["files"], "docs/design/000-design-notes.md")
    assert not re.search(hooks["words"]["files"], "tests/conftest.py")


@pytest.mark.parametrize("form", ["bug", "feature"])
def test_issue_forms_are_what_the_hosting_page_takes(form: str) -> None:
    document = load_yaml(f".github/ISSUE_TEMPLATE/{form}.yml")
    assert document.keys() >= {"name", "description", "body"}
    fields = [each for each in document["body"] if each["type"] != "markdown"]
    ids = [field["id"] for field in fields]
    assert len(ids) == len(set(ids)) > 1
    assert all(field["attributes"]["label"] for field in fields)
    assert {field["type"] for field in fields} <= {"textarea", "dropdown", "checkboxes", "input"}


@pytest.mark.parametrize("guide", GUIDES)
def test_guides_name_targets_and_files_that_exist(guide: str) -> None:
    text = (ROOT / guide).read_text()
    named = {
        target
        for command in re.findall(r"`(?:\w+=\S+ )?make ([^`]*)`", text)
        for target in command.split(" ARGS=")[0].split()
    }
    assert named <= described_targets()
    files = re.findall(r"`((?:docs|scripts|tests|\.ci|src)/[\w./-]+\w)`", text)
    missing = [file for file in files if not (ROOT / file).exists()]
    assert missing == []


def test_the_bug_report_asks_for_commands_that_exist() -> None:
    text = (ROOT / ".github" / "ISSUE_TEMPLATE" / "bug.yml").read_text()
    commands = set(re.findall(r"`frazil ([a-z-]+)", text))
    assert commands == {"doctor", "verify"}
    assert all((ROOT / "src/frazil/cli" / f"{command}.py").exists() for command in commands)


def test_the_citation_and_the_package_have_one_version() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    citation = load_yaml("CITATION.cff")
    assert (citation["version"], citation["license"]) == (project["version"], project["license"])
    assert citation.keys() >= {"cff-version", "message", "title", "authors"}


def test_classifiers_begin_with_the_lowest_python_that_is_required() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    versions = re.findall(r":: Python :: (3\.\d+)", "\n".join(project["classifiers"]))
    assert f">={versions[0]}" == project["requires-python"]
    assert versions == sorted(versions, key=lambda version: int(version[2:]))


def test_security_is_reported_privately_and_no_host_is_made_up() -> None:
    text = (ROOT / "SECURITY.md").read_text()
    assert "private vulnerability report" in text
    assert "(docs/security.md)" in text
    for name in ("SECURITY.md", "CODE_OF_CONDUCT.md", *GUIDES):
        assert re.findall(r"\b[\w.]+@[\w.]+\b|https?://", (ROOT / name).read_text()) == []


def test_ci_runs_what_a_developer_runs() -> None:
    script = ROOT / ".ci" / "run"
    assert os.access(script, os.X_OK)
    commands = script.read_text().splitlines()
    assert "export FRAZIL_STRICT=1" in commands
    assert [line.split(" >")[0].split(" ||")[0] for line in commands if "make " in line[:5]] == [
        "make venv",
        "make lint types",
        "make test",
    ]


def test_ci_fails_if_lint_fails_though_the_tests_pass(tmp_path: Path) -> None:
    """The script itself, with a `make` that only fails for one target."""
    for folder in (".ci", ".build", "scripts", "bin"):
        (tmp_path / folder).mkdir()
    (tmp_path / ".ci" / "run").write_text((ROOT / ".ci" / "run").read_text())
    (tmp_path / ".ci" / "run").chmod(0o755)
    for name, body in (
        ("bin/make", 'echo "ran $1"; [ "$1" != "$FAILING" ]'),
        ("scripts/install_servers.sh", ""),
    ):
        (tmp_path / name).write_text(f"#!/bin/sh\n{body}\n")
        (tmp_path / name).chmod(0o755)
    path = f"{tmp_path / 'bin'}:{os.environ['PATH']}"
    for failing, works in (("", True), ("venv", False), ("lint", False), ("test", False)):
        ran = subprocess.run(
            [tmp_path / ".ci" / "run"], env={"PATH": path, "FAILING": failing},
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert (ran.returncode == 0) is works, (failing, ran)
        assert ("ran lint" in ran.stdout) is (failing == "lint")


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
