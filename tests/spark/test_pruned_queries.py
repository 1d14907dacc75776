"""Each mention of a table in a query reads its own chunks, of the variables it uses: counted."""

from pathlib import Path

import pytest
import zarr

from frazil.api import Repository
from frazil.format.chunk_refs import Native
from frazil.paths import NodePath
from frazil.spark import plan_read, plan_sql
from frazil.spark.table.options import ReadOptions
from frazil.spark.table.scan_plan import list_chunks
from tests.spark.in_process import InProcessReader, counted
from tests.spark.repositories import make_weather

# of each mention of a table: the variables it reads, and how many chunks of each.
# A band of latitudes is a quarter of the 48 chunks of a variable, so is a half of a day.
QUERIES: dict[str, list[tuple[set[str], int]]] = {
    "SELECT avg(t2m) FROM w WHERE lat >= 50": [({"t2m"}, 12)],
    "SELECT lat, lon FROM w WHERE lat >= 50": [(set(), 0)],
    "SELECT count(*) FROM w WHERE pressure > 950 AND lon < 120": [({"pressure"}, 16)],
    "SELECT * FROM w WHERE lat >= 50 AND time < '2024-01-01 12:00:00' AND lon = 0": [
        ({"t2m", "pressure"}, 1)
    ],
    "SELECT a.t2m - b.t2m FROM w a JOIN w b ON a.lat = b.lat AND a.lon = b.lon"
    " WHERE a.time = '2024-01-01 00:00:00' AND b.time = '2024-01-02 00:00:00' AND a.lat >= 50": [
        ({"t2m"}, 3),
        ({"t2m"}, 12),
    ],
    "SELECT a.t2m, b.pressure FROM w a JOIN w b USING (time, lat, lon)"
    " WHERE a.lat >= 50 AND b.lat >= 50": [({"t2m"}, 12), ({"pressure"}, 12)],
    "SELECT t2m FROM w WHERE lat >= 50 UNION ALL SELECT pressure FROM w WHERE lat <= -70": [
        ({"t2m"}, 12),
        ({"pressure"}, 12),
    ],
    "SELECT (SELECT max(t2m) FROM w WHERE lat >= 50), (SELECT max(t2m) FROM w)": [
        ({"t2m"}, 12),
        ({"t2m"}, 48),
    ],
    "SELECT a.t2m FROM w a LEFT JOIN w b ON a.time = b.time AND b.lat >= 50 AND a.lat >= 50": [
        ({"t2m"}, 48),  # a row of the left side stays, whatever ON says of it
        (set(), 0),
    ],
    "SELECT t2m FROM w WHERE lat >= 50 OR lon < 10": [({"t2m"}, 48)],
    "WITH n AS (SELECT lat AS y, t2m FROM w) SELECT max(t2m) FROM n WHERE y >= 50": [({"t2m"}, 12)],
    "SELECT t2m FROM w WHERE lat IN (90, -90) AND EXISTS (SELECT 1 FROM w i WHERE i.lon = 0)": [
        ({"t2m"}, 24),
        (set(), 0),
    ],
}


@pytest.fixture(scope="module")
def weather(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("pruned") / "weather"
    make_weather(path)
    return path


def expected_objects(reader: InProcessReader) -> set[str]:
    found = set()
    for variable in reader.scans[0].table.variables:
        for index in list_chunks(reader.scans[0].axes, variable):
            payload = reader.opened.session.chunk_payload(NodePath(variable.path), index)
            assert isinstance(payload, Native)
            found.add(f"chunks/{payload.chunk_id}")
    return found


def require_counts(path: Path, options: ReadOptions, variables: set[str], chunks: int) -> None:
    store, reader = counted(str(path), options)
    assert {v.name for v in reader.scans[0].table.variables} == variables
    wanted = expected_objects(reader)
    assert len(wanted) == chunks * len(variables)
    coordinates = {"time", "lat", "lon"} & {c.name for c in reader.scans[0].table.columns}
    store.clear()
    reader.table()
    fetched = [each.key for each in store.reads if each.key.startswith("chunks/")]
    assert wanted <= set(fetched)
    assert len(fetched) == len(set(fetched)) <= len(wanted) + len(coordinates)


@pytest.mark.parametrize("query", list(QUERIES))
def test_a_mention_of_a_table_reads_its_own_chunks(weather: Path, query: str) -> None:
    plan = plan_sql(query, {"w": str(weather)})
    found = [(one.load.options, one.load.reads) for one in plan.references]
    assert [({r.variable for r in reads}, reads[0].read if reads else 0) for _, reads in found] == (
        QUERIES[query]
    )
    for (options, _), (variables, chunks) in zip(found, QUERIES[query], strict=True):
        require_counts(weather, options, variables, chunks)


@pytest.mark.parametrize(
    ("where", "chunks"), [("lat >= 50", 12), ("lat >= 50 AND pressure > 0", 12), ("t2m > 3", 48)]
)
def test_a_predicate_reads_what_it_mentions_and_no_more(
    weather: Path, where: str, chunks: int
) -> None:
    plan = plan_read(weather, columns=["t2m"], where=where)
    variables = {"t2m", "pressure"} if "pressure" in where else {"t2m"}
    require_counts(weather, plan.options, variables, chunks)


def test_positions_prune_as_values_do(weather: Path) -> None:
    by_value = plan_read(weather, variables="t2m", sel={"lat": slice(50, 90)})
    by_position = plan_read(weather, variables="t2m", isel={"lat": slice(0, 5)})
    assert by_position.chunks_read == by_value.chunks_read == 12
    require_counts(weather, by_position.options, {"t2m"}, 12)
    together = plan_read(weather, variables="t2m", isel={"time": 0}, where="lat >= 50")
    assert together.chunks_read == 3


def test_dimensions_choose_among_variables(tmp_path: Path) -> None:
    repository: Repository = make_weather(tmp_path / "r")
    with repository.transaction("main", message="more") as store:
        zarr.group(store).create_array("mask", shape=(19, 36), chunks=(19, 36), dtype="i1",
                                       dimension_names=("lat", "lon"))  # fmt: skip
    with pytest.raises(ValueError, match=r"pressure, t2m \(time: 48, lat: 19, lon: 36\)") as caught:
        plan_read(repository)
    assert "mask (lat: 19, lon: 36)" in str(caught.value)
    assert "option `dims`" in str(caught.value)
    assert {r.variable for r in plan_read(repository, dims=["lon", "lat"]).reads} == {"mask"}
    both = plan_read(repository, dims=["time", "lat", "lon"])
    assert {r.variable for r in both.reads} == {"t2m", "pressure"}
    with pytest.raises(ValueError, match=r"no variable of group '/' has the dimensions \(lat\)"):
        plan_read(repository, dims=["lat"])
