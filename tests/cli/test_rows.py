import json
from datetime import UTC, date, datetime

import pytest

from frazil.cli.output import OutputFormat
from frazil.cli.views.query_view import MAX_TABLE_ROWS, print_rows

COLUMNS = ["time", "name", "value"]
ROWS = [
    (datetime(2024, 1, 2, 3, tzinfo=UTC), 'a "b", c', 1.5),
    (date(2024, 1, 2), "é", None),
]


def test_a_table_is_aligned_and_says_null(capsys: pytest.CaptureFixture[str]) -> None:
    print_rows(COLUMNS, ROWS, OutputFormat.TABLE)
    assert capsys.readouterr().out.splitlines() == [
        "time                       name      value",
        '2024-01-02T03:00:00+00:00  a "b", c  1.5',
        "2024-01-02                 é         NULL",
    ]


def test_a_table_ends_somewhere(capsys: pytest.CaptureFixture[str]) -> None:
    for count in (MAX_TABLE_ROWS, MAX_TABLE_ROWS + 1):
        print_rows(["n"], ((n,) for n in range(count)), OutputFormat.TABLE)
        lines = capsys.readouterr().out.splitlines()
        assert lines[MAX_TABLE_ROWS] == str(MAX_TABLE_ROWS - 1)
        assert len(lines) == 1 + count
        assert ("--format csv" in lines[-1]) == (count > MAX_TABLE_ROWS)


def test_csv_is_quoted_and_null_is_empty(capsys: pytest.CaptureFixture[str]) -> None:
    print_rows(COLUMNS, ROWS, OutputFormat.CSV)
    assert capsys.readouterr().out == (
        'time,name,value\n2024-01-02T03:00:00+00:00,"a ""b"", c",1.5\n2024-01-02,é,\n'
    )


def test_json_is_a_list_of_objects(capsys: pytest.CaptureFixture[str]) -> None:
    print_rows(COLUMNS, ROWS, OutputFormat.JSON)
    assert json.loads(capsys.readouterr().out) == [
        {"time": "2024-01-02T03:00:00+00:00", "name": 'a "b", c', "value": 1.5},
        {"time": "2024-01-02", "name": "é", "value": None},
    ]


@pytest.mark.parametrize(
    ("output", "expected"),
    [
        (OutputFormat.TABLE, "no rows\n"),
        (OutputFormat.CSV, "time,name,value\n"),
        (OutputFormat.JSON, "[]\n"),
    ],
)
def test_no_rows(capsys: pytest.CaptureFixture[str], output: OutputFormat, expected: str) -> None:
    print_rows(COLUMNS, [], output)
    assert capsys.readouterr().out == expected
