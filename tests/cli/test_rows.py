import json
from datetime import UTC, date, datetime

import pytest

from frazil.cli.sql import OutputFormat
from frazil.cli.views.rows import print_rows

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
