from pathlib import Path
from typing import Any

import zarr

import frazil as frazil_api
from tests.cli.conftest import Example
from tests.cli.running import fails, succeeds


def test_tree_draws_the_tree(example: Example) -> None:
    assert succeeds("tree", example.path).lines == [
        "/",
        "├── model/",
        "│   └── t2m  (time: 48, x: 4) int16, chunks 24x4, 384 B",
        "└── notes  () int16, 2 B",
    ]


def test_tree_shows_what_is_below_a_path(example: Example) -> None:
    assert succeeds("tree", example.path, "model").lines == [
        "/model",
        "└── t2m  (time: 48, x: 4) int16, chunks 24x4, 384 B",
    ]


def test_tree_goes_as_deep_as_told(example: Example) -> None:
    assert succeeds("tree", example.path, "--depth", 1).lines == [
        "/",
        "├── model/",
        "└── notes  () int16, 2 B",
    ]


def test_tree_of_an_older_version(example: Example) -> None:
    for option in (["--tag", "v1"], ["--branch", "old"], ["--snapshot", example.ids()[1]]):
        assert "notes" not in succeeds("tree", example.path, *option).out
    assert succeeds("tree", example.path, "--snapshot", example.ids()[0]).lines == ["/"]


def test_tree_as_json(example: Example) -> None:
    nodes = succeeds("tree", example.path, "--json").json
    assert [node["path"] for node in nodes] == ["/", "/model", "/model/t2m", "/notes"]
    array = nodes[2]
    assert (array["type"], array["shape"], array["num_chunks"]) == ("array", [48, 4], [2, 1])
    assert (array["data_type"], array["dimension_names"]) == ("int16", ["time", "x"])
    assert (array["chunk_shape"], array["size_bytes"]) == ([24, 4], 384)


def test_tree_and_ls_say_what_an_array_is_about(tmp_path: Path) -> None:
    repo = frazil_api.Repository.create(frazil_api.local_filesystem_storage(str(tmp_path / "r")))
    with repo.transaction("main", message="arrays") as store:
        group = zarr.create_group(store)
        about: dict[str, Any] = {"long_name": "2 metre temperature", "units": "K"}
        group.create_array(
            "t2m", shape=(8, 8), chunks=(2, 4), shards=(4, 8), dtype="f4", attributes=about
        )
        group.create_array("names", shape=3, dtype=str)
    assert succeeds("tree", tmp_path / "r").lines[1:] == [
        "├── names  (3) string, chunks 3",
        "└── t2m  (8, 8) float32, chunks 2x4, 256 B  2 metre temperature [K]",
    ]
    row = succeeds("ls", tmp_path / "r").lines[-1]
    assert row.endswith("2x4          256 B  2 metre temperature [K]")


def test_ls_lists_what_is_in_a_group_and_no_more(example: Example) -> None:
    assert succeeds("ls", example.path).lines == [
        "name    type   shape  data type  chunk shape  size",
        "model/  group",
        "notes   array  ()     int16      1            2 B",
    ]
    nodes = succeeds("ls", example.path, "--json").json
    assert [node["path"] for node in nodes] == ["/model", "/notes"]


def test_ls_of_an_array_is_that_array(example: Example) -> None:
    (line,) = succeeds("ls", example.path, "model/t2m").lines[1:]
    assert line.split(maxsplit=2)[:2] == ["t2m", "array"]


def test_ls_of_nothing_says_so(example: Example) -> None:
    lines = succeeds("ls", example.path, "--snapshot", example.ids()[0]).lines
    assert lines == ["this group is empty"]


def test_ls_of_a_missing_node(example: Example) -> None:
    error, hint = fails("ls", example.path, "/zebra")
    assert "/zebra" in error
    assert "frazil tree" in hint


def test_ls_of_what_is_no_path(example: Example) -> None:
    assert "canonical" in fails("ls", example.path, "a/../b")[0]
