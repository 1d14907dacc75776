from tests.cli.conftest import Example
from tests.cli.running import fails, succeeds


def test_tree_draws_the_tree(example: Example) -> None:
    assert succeeds("tree", example.path).lines == [
        "/",
        "├── model/",
        "│   └── t2m  (time: 48, x: 4) int16, 2x1 chunks",
        "└── notes  () int16, 1 chunk",
    ]


def test_tree_shows_what_is_below_a_path(example: Example) -> None:
    assert succeeds("tree", example.path, "model").lines == [
        "/model",
        "└── t2m  (time: 48, x: 4) int16, 2x1 chunks",
    ]


def test_tree_goes_as_deep_as_told(example: Example) -> None:
    assert succeeds("tree", example.path, "--depth", 1).lines == [
        "/",
        "├── model/",
        "└── notes  () int16, 1 chunk",
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


def test_ls_lists_what_is_in_a_group_and_no_more(example: Example) -> None:
    assert succeeds("ls", example.path).lines == [
        "name    type   shape  data type  chunks",
        "model/  group",
        "notes   array  ()     int16      1",
    ]
    nodes = succeeds("ls", example.path, "--json").json
    assert [node["path"] for node in nodes] == ["/model", "/notes"]


def test_ls_of_an_array_is_that_array(example: Example) -> None:
    (line,) = succeeds("ls", example.path, "model/t2m").lines[1:]
    assert line.split(maxsplit=2)[:2] == ["t2m", "array"]


def test_ls_of_nothing_says_so(example: Example) -> None:
    assert succeeds("ls", example.path, "--snapshot", example.ids()[0]).lines == ["nothing is here"]


def test_ls_of_a_missing_node(example: Example) -> None:
    error, hint = fails("ls", example.path, "/model/nope")
    assert "/model/nope" in error
    assert "frazil tree" in hint


def test_ls_of_what_is_no_path(example: Example) -> None:
    assert "canonical" in fails("ls", example.path, "a/../b")[0]
