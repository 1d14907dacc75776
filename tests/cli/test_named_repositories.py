"""Names for repositories, a default one, and what a shell completes."""

import os
import subprocess
from pathlib import Path

import pytest

from tests.cli.conftest import Example
from tests.cli.running import COMMAND, fails, succeeds


@pytest.fixture(autouse=True)
def names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("FRAZIL_REPOSITORIES", str(tmp_path / "config" / "repositories.json"))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_a_name_is_as_good_as_the_place(example: Example) -> None:
    said = succeeds("repo", "add", "weather", example.path).out
    assert said == f"weather is {example.path}\n"
    assert succeeds("log", "weather").out == succeeds("log", example.path).out
    assert succeeds("diff", "weather", "v1", "main").out
    assert succeeds("repo", "list").lines == ["  name     location", f"  weather  {example.path}"]
    succeeds("repo", "remove", "weather")
    assert "there is no repository at weather" in fails("log", "weather")[0]


def test_a_folder_of_the_name_goes_first(example: Example, own_example: Example) -> None:
    succeeds("repo", "add", "repo", example.path)
    succeeds("tag", "create", own_example.path, "only-here")
    assert own_example.path == Path("repo").resolve()
    assert "only-here" in succeeds("tag", "list", "repo", "--json").json


def test_the_default_is_used_where_no_repository_is_named(example: Example) -> None:
    assert "there is no default" in fails("log", code=2)[0]
    succeeds("repo", "add", "weather", example.path, "--default")
    assert succeeds("log").out == succeeds("log", example.path).out
    assert succeeds("head", "@", "/model/t2m").out
    assert succeeds("repo", "list").lines[1].startswith("* weather")
    assert succeeds("repo", "remove", "weather", "--json").json["default"] is None
    assert "there is no default" in fails("tree", code=2)[0]


def test_storage_options_are_remembered_and_secrets_are_not(names: Path) -> None:
    succeeds("repo", "add", "era5", "s3://bucket/era5", "--region", "eu-west-1", "--anonymous")
    stored = succeeds("repo", "list", "--json").json["repositories"]["era5"]
    assert stored["options"] == {"region": "eu-west-1", "anonymous": "true"}
    secrets = names / "secrets.json"
    secrets.write_text('{"secret_access_key": "hush"}')
    error = fails("repo", "add", "x", "s3://bucket/x", "--storage-file", secrets, code=2)[0]
    assert "secret" in error
    assert "hush" not in error
    assert "hush" not in (names / "config" / "repositories.json").read_text()


def test_a_damaged_file_of_names_is_named(names: Path) -> None:
    (names / "config").mkdir()
    (names / "config" / "repositories.json").write_text("[]")
    assert "repositories.json is not a list of repositories" in fails("repo", "list")[0]


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("frazil log {} --branch m", ["main"]),
        ("frazil tree {} --tag ", ["v1"]),
        ("frazil show {} ", ["main", "old", "v1"]),
        ("frazil diff {} v1 o", ["old"]),
        ("frazil head {} /mo", ["/model/"]),
        ("frazil head {} /model/", ["/model/t2m"]),
        ("frazil cat {} mod", ["model/"]),
        ("frazil log we", ["weather"]),
        ("frazil log {}/nowhere --branch m", []),
    ],
)
def test_a_shell_completes_names(example: Example, line: str, expected: list[str]) -> None:
    succeeds("repo", "add", "weather", example.path)
    words = line.format(example.path)
    done = subprocess.run(
        [COMMAND],
        env=os.environ
        | {
            "COMP_WORDS": words,
            "COMP_CWORD": str(words.count(" ")),
            "_FRAZIL_COMPLETE": "complete_bash",
        },
        capture_output=True,
        text=True,
        check=True,
    )
    assert (done.stdout.split(), done.stderr) == (expected, "")
