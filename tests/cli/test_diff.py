from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import zarr

import frazil as frazil_api
from tests.cli.conftest import Example
from tests.cli.running import fails, succeeds


def test_diff_says_what_changed(example: Example) -> None:
    assert succeeds("diff", example.path, "v1", "main").lines == [
        "new arrays:",
        "  /notes",
        "updated chunks:",
        "  /model/t2m: 1  (1,0)",
    ]


def test_diff_as_json(example: Example) -> None:
    first, second = example.ids()[:2]
    changes = succeeds("diff", example.path, first, second, "--json").json
    assert changes["new_groups"] == ["/", "/model"]
    assert changes["new_arrays"] == ["/model/t2m"]
    assert changes["updated_chunks"] == {"/model/t2m": [[0, 0]]}
    assert changes["moved_nodes"] == []


def test_diff_counts_ancestors(example: Example) -> None:
    by_steps = succeeds("diff", example.path, "main~1", "main").out
    assert by_steps == succeeds("diff", example.path, "v1", "main").out


def test_diff_goes_backwards(example: Example) -> None:
    assert succeeds("diff", example.path, "main", "v1").lines == [
        "deleted arrays:",
        "  /notes",
        "updated chunks:",
        "  /model/t2m: 1  (1,0)",
    ]


def test_diff_of_a_version_and_itself(example: Example) -> None:
    assert succeeds("diff", example.path, "main").lines == ["no changes"]


def test_diff_of_what_is_not_there(example: Example) -> None:
    error, hint = fails("diff", example.path, "nope", "main")
    assert "'nope' is not a branch, a tag or the id of a snapshot" in error
    assert "frazil branch list" in hint
    assert "fewer than 9 ancestors" in fails("diff", example.path, "main~9", "main")[0]


@pytest.fixture
def diverged(tmp_path: Path) -> Path:
    """Two branches that both went on from a commit with one array."""
    path = tmp_path / "diverged"
    repo = frazil_api.Repository.create(frazil_api.local_filesystem_storage(str(path)))
    with repo.transaction("main", message="start") as store:
        array: Any = zarr.create_group(store).create_array(
            "t", shape=(4, 6), chunks=(2, 3), dtype="f4", dimension_names=["y", "x"],
            attributes={"units": "K", "comment": "old"},
        )  # fmt: skip
        array[:] = np.arange(24).reshape(4, 6)
    repo.create_branch("fix", repo.lookup_branch("main"))
    with repo.transaction("fix", message="corrected") as store:
        array = zarr.open_group(store)["t"]
        array[3, 5] = 28.0
        array[0, 0] = np.nan
        array.attrs.put({"units": "degC", "long_name": "temperature"})
    with repo.transaction("main", message="more") as store:
        zarr.open_group(store).create_array("other", shape=2, dtype="i4")
    return path


def test_diff_of_two_branches_shows_lines_of_metadata(diverged: Path) -> None:
    assert succeeds("diff", diverged, "main", "fix").lines == [
        "deleted arrays:",
        "  /other",
        "updated arrays:",
        "  /t",
        '    units: "K" -> "degC"',
        '    - comment: "old"',
        '    + long_name: "temperature"',
        "updated chunks:",
        "  /t: 2  (0,0 1,1)",
    ]
    found = succeeds("diff", diverged, "main", "fix", "--json").json
    assert found["metadata"]["/t"] == {
        "attributes.units": {"before": "K", "after": "degC"},
        "attributes.comment": {"before": "old"},
        "attributes.long_name": {"after": "temperature"},
    }
    assert '    units: "K" -> "degC"' in succeeds("show", diverged, "fix").lines


def test_diff_compares_values(diverged: Path) -> None:
    shown = succeeds("diff", diverged, "main", "fix", "--values").lines
    assert shown[-2:] == [
        "changed values:",
        "  /t: 2 of 12 values compared; largest difference 5 at 3,5, mean 5",
    ]
    found = succeeds("diff", diverged, "fix~1", "fix", "--values", "--json").json["values"]
    assert found == {
        "/t": {"changed": 2, "compared": 12, "largest": 5.0, "at": [3, 5], "mean": 5.0}
    }


def test_packing_is_no_difference(diverged: Path) -> None:
    before = succeeds("diff", diverged, "main", "fix").lines
    succeeds("config", "set", diverged, "inline_chunk_threshold_bytes", 0)
    succeeds("pack", diverged, "--branch", "fix")
    assert succeeds("diff", diverged, "main", "fix").lines == before


def test_random_edits_are_found_from_any_version_to_any_other(tmp_path: Path) -> None:
    """As many values differ as numpy says, in both directions."""
    rng = np.random.default_rng(7)
    path = tmp_path / "random"
    repo = frazil_api.Repository.create(frazil_api.local_filesystem_storage(str(path)))
    with repo.transaction("main", message="start") as store:
        zarr.create_group(store).create_array("a", shape=(7, 5), chunks=(2, 3), dtype="i4")[:] = 0
    start = repo.lookup_branch("main")
    for branch in ("one", "two"):
        repo.create_branch(branch, start)
        for _ in range(3):
            with repo.transaction(branch, message="edit") as store:
                y, x = int(rng.integers(7)), int(rng.integers(5))
                array: Any = zarr.open_group(store)["a"]
                array[y, x] = int(rng.integers(1, 4))
    names = ["main", "one", "one~1", "two", "two~2"]
    read = {name: values_at(path, name) for name in names}
    for first in names:
        for second in names:
            told = succeeds("diff", path, first, second, "--values", "--json").json["values"]
            expected = int((read[first] != read[second]).sum())
            assert told.get("/a", {"changed": 0})["changed"] == expected, (first, second)


def values_at(path: Path, name: str) -> npt.NDArray[np.int64]:
    snapshot = succeeds("show", path, name, "--json").json["snapshot_id"]
    return np.array(succeeds("cat", path, "/a", "--snapshot", snapshot, "--json").json["values"])
