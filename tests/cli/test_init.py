from pathlib import Path

from tests.cli.running import fails, frazil, succeeds


def test_init_makes_an_empty_repository(tmp_path: Path) -> None:
    repo = tmp_path / "deep" / "repo"
    assert str(repo) in succeeds("init", repo).out
    (only,) = succeeds("log", repo, "--json").json
    assert only["message"] == "Repository initialized"


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
