"""`frazil verify`, as a user runs it."""

from pathlib import Path

import numpy as np
import pytest
import zarr

import frazil
from tests.cli.running import frazil as run
from tests.cli.running import succeeds


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    root = tmp_path / "repo"
    repository = frazil.Repository.create(frazil.local_filesystem_storage(str(root)))
    session = repository.writable_session("main")
    group = zarr.open_group(session.store, mode="w")
    group.create_array("a", data=np.arange(4000, dtype="i8"), chunks=(1000,))
    session.commit("data")
    return root


def chunk_files(root: Path) -> list[Path]:
    return sorted((root / "chunks").iterdir())


def test_a_healthy_repository_is_said_to_be_one(repo: Path) -> None:
    assert succeeds("verify", repo, "--decode").lines[-1] == "nothing is wrong"
    shown = succeeds("verify", repo, "--json").json
    assert shown["ok"] is True
    assert shown["problems"] == []
    assert shown["stored_chunks"] == {"native": 4, "inline": 0, "virtual": 0}


def test_a_missing_chunk_is_an_error_with_its_place(repo: Path) -> None:
    chunk_files(repo)[0].unlink()
    answer = run("verify", repo, "--json")
    assert answer.code == 5
    (problem,) = answer.json["problems"]
    assert (problem["severity"], problem["kind"]) == ("error", "chunk-missing")
    assert problem["path"] == "/a"
    assert len(problem["chunk_index"]) == 1
    assert problem["file"].startswith("manifests/")


def test_a_chunk_of_nonsense_is_found_by_decoding(repo: Path) -> None:
    chunk = chunk_files(repo)[0]
    chunk.write_bytes(b"?" * chunk.stat().st_size)
    assert succeeds("verify", repo).lines[-1] == "nothing is wrong"
    answer = run("verify", repo, "--decode")
    assert answer.code == 5
    assert answer.lines[0].startswith("error: chunk-undecodable: manifests/")
    assert answer.lines[-1] == "1 error"


def test_a_repair_is_shown_first_and_asked_for(repo: Path) -> None:
    info = repo / "repo"
    damaged = info.read_bytes()[:-20]
    info.write_bytes(damaged)
    shown = run("verify", repo, "--repair", "--dry-run", "--json")
    assert shown.code == 5
    (step,) = shown.json["repairs"]
    assert step["kinds"] == ["repo-info-unreadable"]
    assert info.read_bytes() == damaged
    refused = run("verify", repo, "--repair")
    assert refused.code == 2
    assert "pass --yes" in refused.err
    answer = succeeds("verify", repo, "--repair", "--yes", "--json").json
    assert answer["ok"] is True
    assert (repo / answer["kept"][0]).read_bytes() == damaged
    assert frazil.Repository.open(frazil.local_filesystem_storage(str(repo))).list_branches()


def test_a_place_without_a_repository_has_that_problem(tmp_path: Path) -> None:
    answer = run("verify", tmp_path / "nothing")
    assert answer.code == 5
    assert answer.lines[0].startswith("error: repository-missing")
