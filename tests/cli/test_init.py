from pathlib import Path

import pytest

from tests.cli.running import fails, frazil, succeeds


def test_init_makes_an_empty_repository(tmp_path: Path) -> None:
    repo = tmp_path / "deep" / "repo"
    assert str(repo) in succeeds("init", repo).out
    (only,) = succeeds("log", repo, "--json").json
    assert only["message"] == "Repository initialized"


@pytest.mark.parametrize(
    ("version", "first"),
    [
        ("2", "repo"),
        ("1", "refs/branch.main/ref.json"),
        ("alpha2", "refs/branch.main/ZZZZZZZZ.json"),
        ("alpha1", "r/main/ZZZZZZZZ.json"),
    ],
)
def test_init_makes_repositories_of_other_versions(
    tmp_path: Path, version: str, first: str
) -> None:
    succeeds("init", tmp_path / "repo", "--spec-version", version)
    assert (tmp_path / "repo" / first).exists()
    (only,) = succeeds("log", tmp_path / "repo", "--json").json
    assert only["message"].endswith("initialized")


def test_init_does_not_touch_what_is_there(tmp_path: Path) -> None:
    succeeds("init", tmp_path / "repo")
    before = (tmp_path / "repo" / "repo").read_bytes()
    assert "clean" in fails("init", tmp_path / "repo")[0]
    assert (tmp_path / "repo" / "repo").read_bytes() == before


def test_init_in_a_file_fails(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    assert str(tmp_path / "file") in fails("init", tmp_path / "file")[0]


def test_init_needs_a_place() -> None:
    assert frazil("init").code == 2
