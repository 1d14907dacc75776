"""SQL in the browser, by a real Spark: results are those of numpy, and nothing but reading runs."""

import csv
import io
import json
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zarr
from playwright.sync_api import Browser
from pyspark import SparkContext

import frazil
from frazil.engine.repository import Repository
from frazil.objectstore.local import LocalStore
from frazil.objectstore.memory import MemoryStore
from frazil.web import queries
from frazil.web.server import Server
from tests.spark.conftest import FOREIGN_WARNINGS
from tests.web.browsing import Window, window
from tests.web.made import Client, target
from tests.web.statements import QUERIES, REFUSED

pytestmark = [
    pytest.mark.spark,
    *(pytest.mark.filterwarnings(each) for each in FOREIGN_WARNINGS),
]
STARTING_MS = 300_000  # Spark, on a machine that is busy with other tests
TIMES, DOWN, ACROSS = 6, 40, 50
HOSTILE = "<img src=x onerror=alert(1)>"
FIELD = np.random.default_rng(5).normal(280, 10, (TIMES, DOWN, ACROSS)).astype("f4")
LATITUDE = np.linspace(-60, 60, DOWN)


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two versions of one array, in which the newer is one degree warmer; a group with a name."""
    path = tmp_path_factory.mktemp("sql") / "it's weather"
    repo = frazil.Repository.create(frazil.local_filesystem_storage(str(path)))
    session = repo.writable_session("main")
    group = zarr.group(session.store).create_group("climate")
    array = group.create_array(
        "t2m",
        data=FIELD,
        chunks=(1, 20, 50),
        dimension_names=["time", "lat", "lon"],
    )
    group.create_array("lat", data=LATITUDE, dimension_names=["lat"])
    hostile = zarr.group(session.store).create_group(HOSTILE)
    hostile.create_array(HOSTILE, data=np.arange(3.0), dimension_names=["x"])
    repo.create_tag("v1", session.commit("first"))
    session = repo.writable_session("main")
    array = zarr.open_array(session.store, path="climate/t2m")
    array[...] = FIELD + 1
    session.commit("warmer")
    return path


@pytest.fixture(scope="module")
def server(place: Path) -> Iterator[Server]:
    with Server(Repository.open(LocalStore(place)), name=place.name) as running:
        yield running


@pytest.fixture(scope="module")
def client(server: Server) -> Client:
    return Client.of(server)


def run(seen: Window, query: str, state: str = "done", **parameters: object) -> None:
    seen.visit("sql", **parameters)
    seen.page.fill("#query", query)
    seen.page.press("#query", "Control+Enter")
    seen.page.wait_for_selector(f"#query-form[data-state={state}]", timeout=STARTING_MS)


def rows_of(seen: Window) -> list[list[str]]:
    script = "rows => rows.map(row => [...row.children].map(each => each.textContent))"
    found: list[list[str]] = seen.page.locator("#result tbody tr").evaluate_all(script)
    return found


def test_a_query_gives_what_numpy_gives(seen: Window) -> None:
    query = "SELECT time, avg(t2m) AS mean, max(t2m) FROM climate WHERE lat > 30 GROUP BY time"
    for at, values in (("branch:main", FIELD + np.float32(1)), ("tag:v1", FIELD)):
        run(seen, f"{query} ORDER BY time", at=at)
        part = values[:, LATITUDE > 30]
        rows = np.array(rows_of(seen), float)
        assert rows[:, 0].tolist() == list(range(TIMES))
        np.testing.assert_allclose(rows[:, 1], part.mean((1, 2), dtype="f8"), rtol=1e-12)
        np.testing.assert_array_equal(rows[:, 2].astype("f4"), part.max((1, 2)))
    assert seen.texts("#result th .name") == ["time", "mean", "max(t2m)"]
    assert "6 rows, in" in seen.texts("#query-status")[0]
    assert seen.parameters()["q"].startswith("SELECT time, avg(t2m)")


def test_nothing_runs_by_an_address_alone(seen: Window) -> None:
    seen.visit("sql", q="SELECT 1")
    seen.page.wait_for_timeout(500)
    assert seen.page.input_value("#query") == "SELECT 1"
    assert seen.page.locator("#query-form[data-state]").count() == 0


def test_the_file_has_all_rows_and_the_table_the_first(seen: Window) -> None:
    run(seen, "SELECT lat, lon, t2m FROM climate WHERE time = 0 ORDER BY lat, lon", at="tag:v1")
    assert len(rows_of(seen)) == 1000
    with seen.page.expect_download() as waiting:
        seen.page.click("#save-csv")
    text = Path(waiting.value.path()).read_text()
    lines = list(csv.reader(io.StringIO(text)))
    assert lines[0] == ["lat", "lon", "t2m"]
    np.testing.assert_array_equal(np.array(lines[1:])[:, 2].astype("f4"), FIELD[0].ravel())


def test_what_an_array_shows_opens_as_a_query(seen: Window) -> None:
    seen.visit("browse", path="/climate/t2m", at="tag:v1", slice_at="2,*,*", region="10,30,0,50")
    seen.page.wait_for_selector("#preview[data-state=ready]")
    seen.page.click("#save")
    seen.page.click("#open-sql")
    seen.page.wait_for_selector("#query")
    seen.settle()
    assert seen.parameters()["at"] == "tag:v1"
    seen.page.click("#run")
    seen.page.wait_for_selector("#query-form[data-state=done]")
    assert seen.texts("#result th .name") == ["lat", "lon", "t2m"]
    rows = sorted([float(each) for each in row] for row in rows_of(seen))
    np.testing.assert_array_equal(np.array(rows)[:, 2].astype("f4"), FIELD[2, 10:30].ravel())
    np.testing.assert_array_equal(np.unique(np.array(rows)[:, 0]), LATITUDE[10:30])


@pytest.mark.long
def test_the_copied_program_gives_the_same(seen: Window, tmp_path: Path) -> None:
    run(seen, "SELECT count(*) AS n,\n  max(t2m) AS hot FROM climate", at="tag:v1")
    shown = rows_of(seen)
    seen.page.click("#copy-python")
    program = seen.page.inner_text("#snippet")
    done = subprocess.run(
        [sys.executable, "-c", f"{program}\nprint(frame.to_json(orient='values'))"],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        check=False,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    (row,) = json.loads(done.stdout.splitlines()[-1])
    assert [int(shown[0][0]), np.float32(shown[0][1])] == [row[0], np.float32(row[1])]
    assert row == [FIELD.size, pytest.approx(float(FIELD.max()))]


def test_tables_are_listed_and_their_names_inserted(seen: Window) -> None:
    seen.visit("sql")
    assert set(seen.texts(".tables li > .word:first-child")) == {"climate", HOSTILE}
    seen.page.fill("#query", "SELECT sum(x) FROM ")
    seen.page.click(".tables li:has-text('onerror') > .word:first-child")
    seen.page.click("#run")
    seen.page.wait_for_selector("#query-form[data-state=done]")
    assert rows_of(seen) == [["3"]]


def test_names_and_values_of_others_are_text(seen: Window) -> None:
    run(seen, f"SELECT '{HOSTILE}' AS `{HOSTILE}`, cast(NULL AS INT), X'00ff', array(1, 2)")
    assert rows_of(seen) == [[HOSTILE, "NULL", "00FF", "[1, 2]"]]
    assert seen.texts("#result th .name")[0] == HOSTILE
    run(seen, f"SELECT `{HOSTILE}` +", state="failed")
    assert HOSTILE in seen.texts("#query-error")[0]


def problem(client: Client, query: str, **parameters: object) -> tuple[str, str]:
    """Kind and text of what does not work."""
    found = client.json("sql", q=query, **parameters)
    assert "rows" not in found, found
    return found["kind"], found["problem"]


def test_a_mistake_is_told_where_it_is(seen: Window) -> None:
    def told(query: str) -> str:
        run(seen, query, state="failed")
        assert seen.page.locator("#save-csv:visible").count() == 0
        return seen.texts("#query-error")[0]

    syntax = told("SELECT t2m\nFORM climate WHERE")
    assert "PARSE_SYNTAX_ERROR" in syntax
    assert "^^^" in syntax
    column = told("SELECT t2n FROM climate")
    assert "`t2n`" in column
    assert "`t2m`" in column  # the suggestion
    assert column.endswith("line 1 pos 7")
    assert "Project" not in column
    assert "function" in told("SELECT averge(t2m) FROM climate")
    assert "`nowhere`" in told("SELECT * FROM nowhere")
    assert "boom" in told("SELECT raise_error('boom') FROM climate")
    run(seen, "SELECT 1")  # and then it goes on
    assert rows_of(seen) == [["1"]]


@pytest.mark.parametrize("statement", REFUSED)
def test_only_queries_of_this_repository_run(
    client: Client, place: Path, tmp_path: Path, statement: str
) -> None:
    """Refused before it is analysed; functions and tables in queries may also be not found."""
    secret = tmp_path / "secret.txt"
    secret.write_text("hidden words\n")
    before = sorted(place.rglob("*"))
    other = tmp_path / "other"
    shutil.copytree(place, other)
    kind, text = problem(client, statement.format(secret=secret, folder=other))
    is_query = statement.startswith(("SELECT", "WITH", "FROM"))
    assert kind in ({"not-read-only", "sql"} if is_query else {"not-read-only"})
    assert "hidden words" not in text
    assert sorted(place.rglob("*")) == before
    assert sorted(each.name for each in tmp_path.iterdir()) == ["other", "secret.txt"]


def test_values_of_the_environment_are_not_put_in(client: Client) -> None:
    for text in ("${env:PATH}", "${system:user.home}", "${spark.app.name}"):
        assert client.json("sql", q=f"SELECT '{text}' AS x")["rows"] == [[text]]


@pytest.mark.parametrize("statement", QUERIES)
def test_all_kinds_of_queries_run(client: Client, statement: str) -> None:
    assert client.json("sql", q=statement)["rows"]


def test_results_have_limits(client: Client) -> None:
    many = client.json("sql", q="SELECT id FROM range(1000000)")
    assert (len(many["rows"]), many["more"]) == (queries.MAX_ROWS, True)
    exact = client.json("sql", q=f"FROM range({queries.MAX_ROWS})")
    assert (len(exact["rows"]), exact["more"]) == (queries.MAX_ROWS, False)
    wide = client.json("sql", q="SELECT repeat('x', 1000000) AS long FROM range(10000)")
    assert {len(row[0]) for row in wide["rows"]} == {2001}
    assert wide["more"]
    assert sum(len(row[0]) for row in wide["rows"]) <= queries.MAX_BYTES
    columns = ", ".join(f"id AS c{number}" for number in range(400))
    broad = client.json("sql", q=f"FROM range(100000) |> SELECT {columns}")
    assert len(broad["rows"]) == queries.MAX_CELLS // 400
    status, message = client.refusal("sql", q="x" * (queries.MAX_QUERY + 1))
    assert (status, "letters" in message) == (400, True)
    assert client.refusal("sql", q="SELECT 1", at="branch:nowhere")[0] == 404


def test_a_query_without_enough_memory_is_one_line(client: Client) -> None:
    kind, text = problem(client, "SELECT length(repeat('x', 2000000000)) FROM range(8)")
    assert (kind, text) == ("sql", "Spark has not enough memory for this query: read less")
    assert client.json("sql", q="SELECT 1")["rows"] == [["1"]]


def test_numbers_keep_their_digits(client: Client) -> None:
    query = "SELECT float(0.1), double(0.1), bigint(9007199254740993), double('NaN'), true, 1.50BD"
    found = client.json("sql", q=query)
    assert found["rows"] == [["0.1", "0.1", "9007199254740993", "nan", "true", "1.50"]]
    years = client.json("sql", q="SELECT TIMESTAMP '0001-01-01 06:00:00' - INTERVAL 2 YEARS")
    assert years["rows"] == [["-0001-01-01T06:00:00"]]


SLOW = "SELECT count(*) FROM range(100000000) a CROSS JOIN range(100000000) b WHERE a.id % 7 = b.id"


def jobs() -> int:
    """Jobs of Spark that run in this process."""
    context: Any = SparkContext._active_spark_context
    return len(context.statusTracker().getActiveJobsIds())


def wait_for(*, jobs_wanted: bool) -> None:
    end = time.monotonic() + 60
    while bool(jobs()) != jobs_wanted:
        assert time.monotonic() < end, "jobs did not begin or end"
        time.sleep(0.05)


def test_cancel_ends_the_jobs_and_all_else_is_answered(seen: Window, client: Client) -> None:
    run(seen, "SELECT 1")
    seen.page.fill("#query", SLOW)
    seen.page.click("#run")
    seen.page.wait_for_selector("#query-form[data-state=running]")
    wait_for(jobs_wanted=True)
    begun = time.monotonic()
    assert client.json("repository")["name"] == "it's weather"
    assert client.json("preview", path="/climate/t2m")["valid"] == DOWN * ACROSS
    assert time.monotonic() - begun < 20
    assert jobs()
    assert seen.page.is_disabled("#run")
    assert "Running for" in seen.texts("#query-status")[0]
    seen.page.click("#cancel")
    seen.page.wait_for_selector("#query-form[data-state=cancelled]")
    wait_for(jobs_wanted=False)
    run(seen, "SELECT 2")
    assert rows_of(seen) == [["2"]]


def test_leaving_the_page_cancels(seen: Window) -> None:
    run(seen, "SELECT 1")
    seen.page.fill("#query", SLOW)
    seen.page.press("#query", "Control+Enter")
    wait_for(jobs_wanted=True)
    seen.page.click("text=Storage")
    wait_for(jobs_wanted=False)


def test_a_query_that_takes_too_long_is_stopped(place: Path) -> None:
    with Server(Repository.open(LocalStore(place))) as running:
        running._queries._max_seconds = 30  # nobody waits five minutes here
        client = Client.of(running)
        client.json("sql", q="SELECT 1")
        running._queries._max_seconds = 1
        kind, text = problem(client, SLOW)
        assert kind == "timeout"
        assert "1 seconds" in text
        wait_for(jobs_wanted=False)


def test_pages_of_others_and_other_names_cannot_ask(client: Client) -> None:
    question = target("sql", q="SELECT 1")
    assert client.ask(question, headers={"Host": "evil.example"})[0] == 421
    assert client.ask(question, headers={"Sec-Fetch-Site": "cross-site"})[0] == 403
    assert client.ask(question, headers={"Origin": "http://evil.example"})[0] == 403
    assert client.ask(question, method="POST")[0] == 405


def test_several_ask_at_once(client: Client) -> None:
    answers: dict[int, object] = {}

    def ask(number: int) -> None:
        found = client.json("sql", q=f"FROM climate |> AGGREGATE sum(if(time = 0, {number}, 0))")
        answers[number] = found["rows"]

    threads = [threading.Thread(target=ask, args=(number,)) for number in range(4)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert answers == {number: [[str(number * DOWN * ACROSS)]] for number in range(4)}


def test_a_repository_in_memory_is_no_table() -> None:
    with Server(Repository.create(MemoryStore())) as running:
        text = problem(Client.of(running), "SELECT * FROM repo")[1]
    assert "other processes" in text


def test_without_spark_the_page_says_how_to_install_it(
    browser: Browser, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(queries, "find_spec", lambda _: None)
    with Server(Repository.open(LocalStore(place))) as running:
        with window(browser, running.url) as seen:
            seen.visit("sql")
            assert "pip install 'frazil[spark]'" in seen.texts("#install")[0]
            assert seen.page.locator("#query").count() == 0
            seen.visit("browse", path="/climate/t2m")
            assert seen.texts("#node h1") == ["t2m"]
        status, message = Client.of(running).refusal("sql", q="SELECT 1")
    assert (status, "frazil[spark]" in message) == (400, True)
