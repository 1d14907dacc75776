from tests.cli.conftest import Example
from tests.cli.running import fails, frazil, succeeds


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


def test_diff_needs_an_ancestor(example: Example) -> None:
    assert "ancestry" in fails("diff", example.path, "main", "v1")[0]


def test_diff_of_what_is_not_there(example: Example) -> None:
    error, hint = fails("diff", example.path, "nope", "main")
    assert "'nope' is not a branch, a tag or the id of a snapshot" in error
    assert "frazil branch list" in hint
    assert "fewer than 9 ancestors" in fails("diff", example.path, "main~9", "main")[0]


def test_diff_needs_both_ends(example: Example) -> None:
    assert frazil("diff", example.path, "main").code == 2
