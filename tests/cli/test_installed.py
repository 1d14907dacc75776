"""The installed command answers what it answers in this process, which is where others test it."""

import re
import shutil
from pathlib import Path

import pytest
from typer.main import get_command

from frazil.cli.main import app
from tests.cli.conftest import Example
from tests.cli.running import frazil, installed

# Of each command one call, in copies of one repository; of a command not listed its help.
LINES = {
    "branch": "branch create repo dev --from v1",
    "cherry-pick": "cherry-pick repo main --branch old --json",
    "clone": "clone repo copy --dry-run",
    "diff": "diff repo v1 main",
    "dump": "dump repo/repo",
    "expire": "expire repo --older-than 2000-01-01 --dry-run",
    "export": "export repo all.bundle --dry-run",
    "gc": "gc repo --older-than 30d --dry-run --json",
    "import": "import repo/repo copy",
    "init": "init new",
    "log": "log repo --json",
    "ls": "ls repo --json",
    "tree": "tree repo",
    "status": "status repo --json",
    "head": "head repo model/t2m",
    "cat": "cat repo model/t2m --isel time=0:2",
    "read": "read repo model/t2m -o out.npy --json",
    "write": "write repo a/b repo/repo",
    "show": "show repo v1",
    "config": "config get repo compression.level",
    "metadata": "metadata set repo owner me",
    "flags": "flags set repo delete_tag off --json",
    "completion": "completion zsh",
    "serve": "serve repo --port 70000",
    "merge": "merge repo main --into old",
    "migrate": "migrate repo --yes",
    "ops": "ops repo",
    "pack": "pack repo --json",
    "purge": "purge repo /notes --yes",
    "rechunk": "rechunk repo model/t2m --chunks time=12 --dry-run",
    "reduce": "reduce repo t2m --group model --over nope",
    "reset": "reset repo v1 --yes",
    "revert": "revert repo main",
    "rewrite-manifests": "rewrite-manifests repo --dry-run",
    "squash": "squash repo main~1 -m all --yes",
    "stats": "stats repo",
    "tag": "tag delete repo nope",
    "unpack": "unpack repo",
    "verify": "verify repo --decode",
}
ID = re.compile(r"\b[0-9A-HJKMNP-TV-Z]{20}\b")


def names() -> list[str]:
    command = get_command(app)
    return sorted(command.commands)  # type: ignore[attr-defined]  # it is a group


def test_every_line_is_of_a_command_that_there_is() -> None:
    assert set(LINES) <= set(names())


@pytest.mark.parametrize("name", names())
def test_a_process_of_its_own_makes_no_difference(
    example: Example, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    line = LINES.get(name, f"{name} --help").split()
    known, answers = set(example.ids()), []

    def name_new(found: re.Match[str]) -> str:
        return found[0] if found[0] in known else "NEW"

    for run, place in ((frazil, "here"), (installed, "there")):
        shutil.copytree(example.path, tmp_path / place / "repo")
        monkeypatch.chdir(tmp_path / place)
        answer = run(*line)
        err = answer.err.replace(str(tmp_path / place), "")
        answers.append((answer.code, ID.sub(name_new, answer.out), err))
    assert answers[0] == answers[1]
    assert answers[0][1] or answers[0][2]
