"""The page of statements that Iceberg teaches lists those that the tests run."""

from pathlib import Path

from scripts.spark_statements import Run, format_page
from tests.spark.iceberg_statements import STATEMENTS, TAUGHT, WORKING

PAGE = Path(__file__).parents[2] / "docs" / "spark-statements.md"


def test_every_statement_is_on_the_page() -> None:
    text = PAGE.read_text()
    assert [each.text for each in STATEMENTS if each.text not in text] == []
    assert [each.here for each in WORKING if each.here and each.here not in text] == []


def test_what_failed_is_told() -> None:
    good = {each.sql: "" for each in STATEMENTS}
    runs = [
        Run("session", "4.3.0", good),
        Run("spark-sql", "4.3.0", {**good, TAUGHT[3].sql: "it failed"}),
    ]
    lines = format_page(runs).splitlines()
    assert f"| session | {len(WORKING)} |" in lines
    assert f"| spark-sql | {len(WORKING) - 1} |" in lines
    assert "| connect | not run |" in lines
    (line,) = [each for each in lines if each.endswith("not with spark-sql 4.3.0 |")]
    assert TAUGHT[3].text in line
