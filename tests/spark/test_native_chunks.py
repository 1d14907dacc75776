"""Chunks that queries read, counted by the web server that they are read from.

Executors are other processes, so only the store can count: here an HTTP server of the test, which
remembers what it was asked for. Every query reads the repository under an address of its own, so
that no process has anything of it cached.
"""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import count
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from pyspark.sql import DataFrame, SparkSession

from frazil.api import Repository
from frazil.engine.refs.version import Branch
from frazil.format.chunk_refs import Native
from frazil.paths import NodePath
from frazil.spark import read
from tests.servers.http_files import HttpServer
from tests.spark.repositories import CHUNKS, LATITUDES, LONGITUDES, SHAPE, TIMES, make_weather

pytestmark = [pytest.mark.spark, pytest.mark.spark_matrix]

_HOURS = np.arange(TIMES)
_AXES: dict[str, npt.NDArray[Any]] = {"time": _HOURS, "lat": LATITUDES, "lon": LONGITUDES}
_numbers = count()

type Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class Served:
    """A repository on a web server, with the names of the objects of one variable's chunks."""

    server: HttpServer
    objects: dict[str, tuple[int, ...]]

    def address(self) -> str:
        """Another one at each call, for the same files."""
        name = f"r{next(_numbers)}"
        (self.server.root / name).symlink_to("weather")
        return f"{self.server.url}/{name}"

    def chunks_read(
        self, ask: Callable[[str], DataFrame], *, once: bool = True
    ) -> tuple[set[tuple[int, ...]], int]:
        """The chunks that a query asks for, and the number of its rows."""
        address = self.address()
        self.server.asked.clear()
        rows = ask(address).select("t2m").collect()
        found = [one.path.rsplit("/", 1)[1] for one in self.server.asked if "/chunks/" in one.path]
        assert len(found) == len(set(found)) or not once
        return {self.objects[name] for name in found}, len(rows)


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    root = tmp_path_factory.mktemp("served")
    repository = make_weather(root / "weather")
    with ExitStack() as running:
        yield Served(running.enter_context(HttpServer(root)), _objects(repository))


def _objects(repository: Repository) -> dict[str, tuple[int, ...]]:
    session = repository.engine.readonly_session(Branch("main"))
    grid = np.ndindex(*(-(-n // c) for n, c in zip(SHAPE, CHUNKS, strict=True)))
    found = {}
    for index in grid:
        payload = session.chunk_payload(NodePath("/t2m"), index)
        assert isinstance(payload, Native)
        found[str(payload.chunk_id)] = tuple(index)
    return found


@dataclass(frozen=True)
class Along:
    """A condition on one dimension: as SQL, as `sel`, and as the positions where it holds."""

    dimension: str
    sql: str
    sel: Any
    holds: Mask


def some_condition(rng: np.random.Generator, dimension: str) -> Along:
    values = _AXES[dimension]
    low, high = sorted(rng.choice(values, 2))
    if dimension == "time":
        texts = [f"2024-01-0{1 + h // 24}T{h % 24:02}:00:00" for h in (low, high)]
        sql = f"time BETWEEN '{texts[0]}' AND '{texts[1]}'"
        return Along(dimension, sql, slice(*texts), (values >= low) & (values <= high))
    if rng.random() < 0.4:
        some = sorted({float(v) for v in rng.choice(values, 3)})
        listed = ", ".join(f"{v:g}" for v in some)
        return Along(dimension, f"{dimension} IN ({listed})", some, np.isin(values, some))
    sql = f"{dimension} >= {low:g} AND {dimension} <= {high:g}"
    span = slice(float(low), float(high))
    return Along(dimension, sql, span, (values >= low) & (values <= high))


def mask_of(*conditions: Along) -> Mask:
    mask = np.ones(SHAPE, dtype=bool)
    for each in conditions:
        axis = list(_AXES).index(each.dimension)
        mask &= each.holds.reshape([-1 if k == axis else 1 for k in range(3)])
    return mask


def chunks_of(mask: Mask) -> set[tuple[int, ...]]:
    return {tuple(int(n) for n in at) for at in np.argwhere(mask) // CHUNKS}


def ways(spark: SparkSession, where: str, sel: dict[str, Any] | None) -> dict[str, Any]:
    """The same query, asked in all the ways there are."""

    def load(address: str) -> DataFrame:
        return spark.read.format("icechunk").option("variables", "t2m").load(address)

    def by_view(address: str) -> DataFrame:
        load(address).createOrReplaceTempView("served_weather")
        return spark.sql(f"SELECT * FROM served_weather WHERE {where}")  # noqa: S608 -- our own

    def by_catalog(address: str) -> DataFrame:
        return spark.sql(f"SELECT * FROM icechunk.`{address}`.t2m WHERE {where}")  # noqa: S608

    found: dict[str, Any] = {
        "DataFrame": lambda a: load(a).where(where),
        "SQL of a view": by_view,
        "SQL of the catalog": by_catalog,
    }
    if sel is not None:
        found["sel"] = lambda a: read(spark, a, variables="t2m", sel=sel)
    return found


@pytest.mark.parametrize("seed", range(3))
def test_where_and_sql_and_sel_read_the_same_chunks(
    spark: SparkSession, served: Served, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    dimensions = rng.choice(list(_AXES), int(rng.integers(1, 4)), replace=False)
    conditions = [some_condition(rng, str(name)) for name in dimensions]
    mask = mask_of(*conditions)
    where = " AND ".join(each.sql for each in conditions)
    sel = {each.dimension: each.sel for each in conditions}
    for way, ask in ways(spark, where, sel).items():
        chunks, rows = served.chunks_read(ask)
        assert chunks == chunks_of(mask), (way, where)
        assert rows == mask.sum(), (way, where)


@pytest.mark.parametrize("seed", range(100, 102))
def test_alternatives_read_the_chunks_of_their_cells_and_no_others(
    spark: SparkSession, served: Served, seed: int
) -> None:
    """What no `sel` can say: unions of products. One chunk may be read for two products of them."""
    rng = np.random.default_rng(seed)
    a, b, c = (some_condition(rng, str(rng.choice(list(_AXES)))) for _ in range(3))
    where = f"({a.sql}) AND ({b.sql}) OR NOT ({c.sql}) AND ({a.sql})"
    mask = mask_of(a, b) | (~mask_of(c) & mask_of(a))
    for way, ask in ways(spark, where, None).items():
        chunks, rows = served.chunks_read(ask, once=False)
        assert chunks == chunks_of(mask), (way, where)
        assert rows == mask.sum(), (way, where)


def test_a_condition_on_a_variable_reads_its_chunks_and_those_of_the_rest_prune(
    spark: SparkSession, served: Served
) -> None:
    where = "lat >= 50 AND t2m > 280"
    for ask in ways(spark, where, None).values():
        chunks, _ = served.chunks_read(ask)
        assert chunks == chunks_of(mask_of(Along("lat", "", None, LATITUDES >= 50)))


def test_what_no_cell_fulfils_reads_nothing(spark: SparkSession, served: Served) -> None:
    for ask in ways(spark, "lat > 91 OR lon = 5", None).values():
        assert served.chunks_read(ask) == (set(), 0)
