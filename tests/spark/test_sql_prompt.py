"""The prompt of `frazil sql`, as somebody types: SHOW and DESCRIBE beside queries."""

import builtins
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
import zarr

import frazil
from frazil.cli.output import OutputFormat
from frazil.cli.views.query_view import Queries, run_prompt

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("spark")]

type Typing = Callable[..., tuple[list[str], list[str]]]
CONTROL_C = "\x03"
COLUMNS = ["time,bigint,", "t2m,double,"]


@pytest.fixture(scope="module")
def weather(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two tables: the root group, and one two groups below it."""
    path = tmp_path_factory.mktemp("prompt") / "weather"
    repository = frazil.Repository.create(frazil.local_filesystem_storage(str(path)))
    with repository.transaction("main", message="two tables") as store:
        root = zarr.group(store)
        for group in (root, root.create_group("surface/hourly")):
            group.create_array("time", data=np.arange(4), dimension_names=["time"])
            group.create_array("t2m", data=np.arange(4.0), dimension_names=["time"])
    return path


@pytest.fixture
def typed(
    weather: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Typing:
    """What one prompt prints for these lines, and what it complains about."""

    def run(*lines: str) -> tuple[list[str], list[str]]:
        waiting: Iterator[str] = iter(lines)

        def read_line(prompt: str) -> str:
            assert prompt.endswith("> ")
            line = next(waiting, None)
            if line is None:
                raise EOFError
            if line == CONTROL_C:
                raise KeyboardInterrupt
            return line

        monkeypatch.setattr(builtins, "input", read_line)
        version = dict.fromkeys(("branch", "tag", "snapshot", "as_of"))
        run_prompt(
            Queries.of(
                str(weather), group="/", version=version, authorize={}, output=OutputFormat.CSV
            )
        )
        said = capsys.readouterr()
        return said.out.splitlines(), said.err.splitlines()[2:-1]  # without the help

    return run


def test_tables_are_shown_by_name(typed: Typing) -> None:
    shown, wrong = typed("SHOW TABLES LIKE 'surf*';", "-- all of them", "show tables;")
    assert wrong == []
    assert shown[:2] == ["namespace,tableName,isTemporary", ",surface_hourly,False"]
    assert {",repo,False", ",weather,False", ",surface_hourly,False"} <= set(shown[3:])


def test_single_precision_has_no_digits_of_double(typed: Typing) -> None:
    shown, wrong = typed("SELECT float(0.1) AS x, double(0.1) AS y, float('nan'), float(NULL);")
    assert wrong == []
    assert shown[1:] == ["0.1,0.1,nan,"]


@pytest.mark.parametrize(
    "statement",
    [
        "DESCRIBE repo;",
        "desc weather;",
        "DESCRIBE TABLE surface_hourly;",
        "DESCRIBE repo.`surface/hourly`;",
        "DESCRIBE `weather`.`/surface/hourly`;",
        "/* what\nis it */ DESC\nEXTENDED\nrepo;",
    ],
)
def test_a_table_is_described_by_any_of_its_names(typed: Typing, statement: str) -> None:
    shown, wrong = typed(*statement.split("\n"))
    assert (wrong, shown[:3]) == ([], ["col_name,data_type,comment", *COLUMNS])
    assert ('Statistics,"64 bytes, 4 rows",' in shown) == ("EXTENDED" in statement)


def test_columns_are_shown(typed: Typing) -> None:
    shown, wrong = typed("SHOW COLUMNS", "  IN repo.`surface/hourly`;", "DESCRIBE repo t2m;")
    assert wrong == []
    assert shown[:3] == ["col_name", "time", "t2m"]
    assert "data_type,double" in shown[3:]


def test_what_is_not_there_is_told_and_the_prompt_goes_on(typed: Typing) -> None:
    shown, wrong = typed(
        "DESCRIBE repo.`nope`;",
        "SHOW PARTITIONS repo;",
        "SELECT max(t2m) AS most FROM surface_hourly;",
    )
    assert shown == ["most", "3.0"]
    assert [line.split("]")[0] for line in wrong if line.startswith("error")] == [
        "error: node not found at `/nope`",
        "error: [INVALID_PARTITION_OPERATION.PARTITION_MANAGEMENT_IS_UNSUPPORTED",
    ]


def test_spark_explains_a_query_and_tells_its_chunks(typed: Typing) -> None:
    shown, wrong = typed(
        "EXPLAIN SELECT t2m FROM repo WHERE time > 2;",
        "explain /* more */ formatted\nSELECT avg(t2m) FROM repo.`surface/hourly`;",
        "EXPLAIN SELECT 1;",
        "EXPLAIN;",
    )
    assert shown[0] == "plan"
    assert sum("== Physical Plan ==" in line for line in shown) == 3
    assert sum("chunks: 1 of 1, rows: 1 of 4" in line for line in shown) == 1
    assert sum("chunks: 1 of 1, rows: 4 of 4" in line for line in shown) == 1
    assert "[PARSE_SYNTAX_ERROR]" in wrong[0]


def test_old_versions_and_views_at_the_prompt(typed: Typing, weather: Path) -> None:
    storage = frazil.local_filesystem_storage(str(weather))
    first = frazil.Repository.open(storage).lookup_branch("main")
    shown, wrong = typed(
        f"CREATE OR REPLACE TEMPORARY VIEW late AS SELECT * FROM repo VERSION AS OF '{first}'",  # noqa: S608  # our own text
        "  WHERE time > 2;",
        "SELECT count(*) AS n FROM late JOIN weather USING (time);",
        "DROP VIEW late;",
        "SELECT t2m FROM nope;",
    )
    assert "n" in shown
    assert shown[shown.index("n") + 1] == "1"
    assert ["TABLE_OR_VIEW_NOT_FOUND" in line for line in wrong[:1]] == [True]


def test_control_c_drops_the_lines_before_it(typed: Typing) -> None:
    shown, wrong = typed("SELECT foo", CONTROL_C, "SELECT count(*) AS n FROM repo;")
    assert shown == ["n", "4"]
    assert [line for line in wrong if line] == []


def test_times_beyond_those_of_python_are_shown(typed: Typing) -> None:
    shown, wrong = typed(
        "SELECT timestamp_seconds(-62167219200) AS a, timestamp_seconds(-62135596801) AS a,"
        " date '-0044-03-15' AS d, timestamp_ntz '2024-01-01 12:00:00.5' AS b,"
        " timestamp '12024-01-01 00:00:00' AS c, CAST(NULL AS timestamp) AS e;",
    )
    assert wrong == []
    assert shown[0] == "a,a,d,b,c,e"
    assert shown[1].split(",") == [
        "0000-01-01T00:00:00",
        "0000-12-31T23:59:59",
        "-0044-03-15",
        "2024-01-01T12:00:00.5",
        "+12024-01-01T00:00:00",
        "",
    ]
