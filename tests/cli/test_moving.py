"""Clone, export, import and migrate, as a user types them."""

from pathlib import Path

import pytest

import frazil as frazil_api
from frazil.api import Repository
from tests.cli.conftest import Example
from tests.cli.running import fails, frazil, succeeds
from tests.conformance.generations import put, repository_files
from tests.unit.maintenance.moved import commit, made, seen


def opened(path: Path) -> Repository:
    return Repository.open(frazil_api.local_filesystem_storage(path))


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    made(frazil_api.local_filesystem_storage(tmp_path / "repo").store)
    return tmp_path / "repo"


def test_a_clone_is_made_and_brought_up_to_date(repo: Path, tmp_path: Path) -> None:
    target = tmp_path / "copy"
    assert "would be made" in succeeds("clone", repo, target, "--dry-run").out
    assert not target.exists()
    assert succeeds("clone", repo, target, "--check").out.startswith("cloned 5 snapshots")
    assert seen(opened(target)) == seen(opened(repo))
    commit(opened(repo), "main", 9)
    assert "would be brought up to date" in succeeds("clone", repo, target, "--dry-run").out
    done = succeeds("clone", repo, target, "--json").json
    assert (done["exists"], done["updated"], done["dry_run"]) == (True, True, False)
    assert 0 < done["copied"] < done["objects"]
    part = tmp_path / "part"
    succeeds("clone", repo, part, "--path", "g0", "--ref", "main")
    assert opened(part).list_branches() == {"main"}
    commit(opened(target), "main", 11)
    assert "commits of its own" in fails("clone", repo, target, code=3)[0]
    assert frazil("clone", repo, target, "--spark", "--path", "g0").code == 2


def test_a_bundle_is_exported_and_imported(repo: Path, tmp_path: Path) -> None:
    bundle, copy = tmp_path / "all.bundle", tmp_path / "copy"
    assert "5 snapshots" in succeeds("export", repo, bundle, "--dry-run").out
    assert not bundle.exists()
    succeeds("export", repo, bundle)
    assert "would be made" in succeeds("import", bundle, copy, "--dry-run").out
    succeeds("import", bundle, copy)
    assert seen(opened(copy)) == seen(opened(repo))
    commit(opened(repo), "main", 9)
    more = tmp_path / "more"
    options = ("--format", "bundle", "--since", "main~1", "--ref", "main")
    assert succeeds("export", repo, more, *options, "--json").json["copied"] < 10
    assert succeeds("import", more, copy, "--json").json["updated"]
    assert opened(copy).lookup_branch("main") == opened(repo).lookup_branch("main")
    assert "not at the target" in fails("import", more, tmp_path / "empty")[0]
    assert "archive" in fails("import", repo / "repo", tmp_path / "empty")[0]
    assert frazil("export", repo, tmp_path / "x.zarr", "--since", "main").code == 2
    succeeds("clone", bundle, tmp_path / "from a bundle")


def test_a_repository_is_migrated_and_the_migration_confirmed(tmp_path: Path) -> None:
    path = tmp_path / "repo"
    made(frazil_api.local_filesystem_storage(path).store, spec_version=1)
    before = seen(opened(path))
    assert succeeds("migrate", path, "--dry-run").out.startswith("would be migrated from V1 to")
    assert frazil("migrate", path).code == 2  # nobody to ask
    assert "nothing" not in succeeds("migrate", path, "--yes").out
    assert seen(opened(path)) == before
    assert succeeds("migrate", path, "--confirm", "--dry-run", "--json").json["files"] == 5
    assert frazil("migrate", path, "--confirm").code == 2
    assert "removed: 5 files of V1" in succeeds("migrate", path, "--confirm", "--yes").out
    assert succeeds("migrate", path, "--confirm").lines == ["nothing to confirm"]
    assert "already" in succeeds("migrate", path, "--yes").out


def test_an_alpha_is_migrated_to_another_place(tmp_path: Path) -> None:
    root = put(repository_files("A2c-synthetic"), tmp_path / "old")
    done = succeeds("migrate", root, tmp_path / "new", "--json").json
    assert (done["generation"], done["spec_version"], done["in_place"]) == ("A2c", 2, False)
    succeeds("migrate", root, tmp_path / "one", "--to", "1")
    assert int(opened(tmp_path / "one").spec_version) == 1
    assert opened(tmp_path / "new").list_branches() == {"main", "dev"}
    assert frazil("migrate", root, tmp_path / "new", "--confirm").code == 2


def test_migrate_has_nothing_to_do_for_what_is_current(own_example: Example) -> None:
    repo = own_example.path
    said = succeeds("migrate", repo).out
    assert said == f"nothing to do: {repo} is a version 2 repository already\n"
    assert succeeds("migrate", repo, "--json").json == {"migrated": False, "spec_version": 2}
    assert "version 2" in succeeds("migrate", repo, "--dry-run").out
