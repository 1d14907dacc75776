"""`frazil status`, `config`, `metadata`, `flags`, `show`, `log --graph`: what a repository is."""

import re
from pathlib import Path

import numpy as np

import frazil as frazil_api
from tests.cli.conftest import Example
from tests.cli.running import fails, succeeds


def opened(path: Path) -> frazil_api.Repository:
    return frazil_api.Repository.open(frazil_api.local_filesystem_storage(str(path)))


def test_settings_are_stored_for_everybody(own_example: Example) -> None:
    repo = own_example.path
    assert succeeds("config", "get", repo, "compression.level").out == "3\n"
    said = succeeds("config", "set", repo, "compression.level", 7).out
    assert said == "compression.level is 7, was 3\n"
    config = opened(repo).config
    assert config.compression is not None
    assert config.compression.level == 7
    shown = succeeds("config", "show", repo, "--json").json
    assert shown["compression.level"] == {"value": 7, "stored": True}
    assert shown["caching.num_chunk_refs"] == {"value": 15_000_000, "stored": False}
    assert shown["repo_update_retries.default.max_tries"]["value"] == 100
    succeeds("config", "set", repo, "compression.level", "default")
    assert succeeds("config", "get", repo, "compression.level", "--json").json["value"] == 3


def test_a_setting_in_a_part_that_was_not_there(own_example: Example) -> None:
    repo = own_example.path
    succeeds("config", "set", repo, "storage.retries.max_tries", 3)
    settings = opened(repo).config.storage
    assert settings is not None
    assert settings.retries is not None
    assert settings.retries.max_tries == 3


def test_a_setting_that_is_none_or_cannot_be(own_example: Example) -> None:
    repo = own_example.path
    assert "did you mean 'compression.level'" in fails("config", "get", repo, "compresion.level")[0]
    assert "has parts" in fails("config", "get", repo, "compression")[0]
    assert "whole number" in fails("config", "set", repo, "compression.level", "much")[0]
    for level in (0, 23, 99, 300):
        error = fails("config", "set", repo, "compression.level", level)[0]
        assert error == f"error: compression.level cannot be {level}: it is from 1 to 22"
    assert "at least 1" in fails("config", "set", repo, "max_concurrent_requests", 0)[0]
    assert opened(repo).config.compression is None


def test_metadata_is_set_and_unset(own_example: Example) -> None:
    repo = own_example.path
    assert succeeds("metadata", "show", repo).out == "no metadata\n"
    succeeds("metadata", "set", repo, "owner", "the weather office")
    found = succeeds("metadata", "set", repo, "levels", "[1, 2]", "--json").json
    assert found == opened(repo).metadata == {"owner": "the weather office", "levels": [1, 2]}
    succeeds("metadata", "unset", repo, "owner")
    assert opened(repo).metadata == {"levels": [1, 2]}
    assert "no 'owner'" in fails("metadata", "unset", repo, "owner")[0]


def test_flags_forbid_and_allow(own_example: Example) -> None:
    repo = own_example.path
    assert succeeds("flags", "list", repo, "--json").json["delete_tag"] == {
        "enabled": True,
        "set": False,
    }
    succeeds("flags", "set", repo, "delete_tag", "off")
    assert "delete_tag" in fails("tag", "delete", repo, "v1", "--yes")[0]
    succeeds("flags", "set", repo, "delete_tag", "default")
    succeeds("tag", "delete", repo, "v1", "--yes")
    assert "invalid feature flag" in fails("flags", "set", repo, "nope", "on")[0]


def test_a_repository_that_takes_no_changes(own_example: Example) -> None:
    repo = own_example.path
    facts = succeeds("status", repo, "--json").json
    assert (facts["availability"], facts["branches"], facts["snapshots"]) == (
        "online",
        ["main", "old"],
        3,
    )
    assert facts["tip"]["message"] == "second day"
    lines = succeeds("status", repo, "--set", "read-only", "--reason", "moving").lines
    assert lines[1] == "status      read-only: moving"
    assert "moving" in fails("branch", "create", repo, "dev")[0]
    succeeds("status", repo, "--set", "online")
    succeeds("branch", "create", repo, "dev")
    assert "--set" in fails("status", repo, "--reason", "why", code=2)[0]


def test_a_repository_of_version_1_has_a_standing(tmp_path: Path) -> None:
    succeeds("init", tmp_path / "old", "--spec-version", "1")
    facts = succeeds("status", tmp_path / "old", "--json").json
    assert (facts["generation"], facts["branches"]) == ("V1", ["main"])
    assert "version" in fails("status", tmp_path / "old", "--set", "offline")[0]


def test_a_commit_is_shown_with_its_changes(example: Example) -> None:
    _, first, last = example.ids()
    facts = succeeds("show", example.path, "main~1", "--json").json
    assert (facts["snapshot_id"], facts["tags"], facts["branches"]) == (first, ["v1"], ["old"])
    assert facts["metadata"] == {"source": "test"}
    assert facts["changes"]["new_arrays"] == ["/model/t2m"]
    lines = succeeds("show", example.path).lines
    assert lines[0] == f"snapshot  {last}  (main)"
    assert "    second day" in lines
    assert "  /notes" in lines
    assert "none: the first one" in succeeds("show", example.path, "main~2").out


def test_history_is_drawn(own_example: Example) -> None:
    repo, ids = own_example.path, own_example.ids()

    def drawn(*options: object) -> list[str]:
        lines = succeeds("log", repo, "--graph", *options).lines
        return [re.sub(r" \d{4}-\d\d-\d\d \d\d:\d\d", " DATE", line) for line in lines]

    assert drawn() == [
        f"● {ids[2][:8]} DATE (main) second day",
        "│",
        f"● {ids[1][:8]} DATE (old, v1) first [day]",
        "│",
        f"● {ids[0][:8]} DATE Repository initialized",
    ]
    assert len(drawn("-n", 1)) == 1
    found = succeeds("log", repo, "--graph", "--json").json
    assert [commit["snapshot_id"] for commit in found["commits"]] == ids[::-1]
    np.save(repo.parent / "a.npy", np.arange(3))
    succeeds("write", repo, "/a", repo.parent / "a.npy", "--branch", "old", "-m", "an array")
    succeeds("merge", repo, "old")
    succeeds("branch", "delete", repo, "old", "--yes")
    lines = [re.sub(r"\b[0-9A-Z]{8}\b", "ID", line) for line in drawn()]
    assert lines == [
        "●─╮ ID DATE (main) Merge branch 'old' into 'main'",
        "│ │",
        "│ ● ID DATE an array",
        "│ │",
        "● │ ID DATE second day",
        "│ │",
        "●─╯ ID DATE (v1) first [day]",
        "│",
        "●   ID DATE Repository initialized",
    ]


def test_log_names_branches_and_tags(example: Example) -> None:
    rows = succeeds("log", example.path).lines[1:]
    assert [row.split("  ")[-1] for row in rows] == [
        "(main) second day",
        "(old, v1) first [day]",
        "Repository initialized",
    ]
    told = succeeds("log", example.path, "--json").json
    assert [(each["branches"], each["tags"]) for each in told] == [
        (["main"], []),
        (["old"], ["v1"]),
        ([], []),
    ]
