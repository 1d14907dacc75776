"""Aggregates that the native table computes: the answers are those of Spark over the same rows."""

import itertools
import math
import random
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import zarr
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, Row, SparkSession

from frazil.api.repository import Repository
from frazil.api.storage_functions import local_filesystem_storage
from tests.spark.repositories import put

TABLES = 1
QUERIES = 12  # of each table
LONG_TABLES = 24
PUSHED = "aggregates: ["


@dataclass
class Case:
    """A table: Spark's name of the native one, the same rows in memory, and what is in it."""

    name: str
    dims: dict[str, str] = field(default_factory=dict)  # kind of each coordinate
    variables: dict[str, str] = field(default_factory=dict)

    @property
    def rows(self) -> str:
        return f"{self.name}_rows"


# Random tables.

TIMES = ("hours since 2023-12-30", "days since 1999-02-20", "minutes since 2024-02-28 23:00")


def make_coordinate(  # noqa: PLR0911 -- a table
    rng: np.random.Generator, size: int
) -> tuple[str, Any, dict[str, Any]]:
    kind = str(rng.choice(["down", "float", "nan", "int", "same", "time", "text", "none", "short"]))
    match kind:
        case "down":
            return "float", np.linspace(90, -90, size), {}
        case "float":
            return "float", np.sort(rng.uniform(-40, 40, size)).astype(np.float32), {}
        case "nan":
            values = np.round(rng.normal(0, 20, size))
            values[rng.random(size) < 0.3] = np.nan
            values[rng.random(size) < 0.2] = -0.0
            return "float", values, {}
        case "int":
            return "int", np.arange(size)[::-1] * 3 - 7, {}
        case "same":
            return "int", rng.integers(-2, 3, size).astype(np.int32), {}
        case "time":
            count = rng.integers(0, 2000, size) if rng.random() < 0.3 else np.arange(size) * 7
            return "time", count, {"units": str(rng.choice(TIMES))}
        case "text":
            return "text", np.array([f"k{i % 5}é" for i in range(size)], dtype="U4"), {}
        case "short":
            return "int", rng.integers(0, 9, size).astype(np.int16), {"_FillValue": 3}
    return "int", None, {}


KINDS = ["f2", "f4", "f8", "nan", "signed", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "bool"]
KINDS += ["scaled", "when", "text", "complex"]


def make_values(  # noqa: C901, PLR0911 -- a table
    rng: np.random.Generator, shape: tuple[int, ...]
) -> tuple[str, npt.NDArray[Any], dict[str, Any], Any]:
    """Kind, values, attributes and fill value of a variable."""
    kind = str(rng.choice(KINDS))
    match kind:
        case "f2" | "f4" | "f8":
            return "positive", rng.uniform(0.5, 900, shape).astype(kind), {}, 0
        case "nan":
            values = rng.uniform(200, 300, shape).astype(rng.choice(["f4", "f8"]))
            values[rng.random(shape) < 0.4] = np.nan
            return "positive", values, {}, np.nan
        case "signed":
            special = np.array([np.nan, np.inf, -np.inf, -0.0, 0.0, 1e300, -3.5, 5e-324])
            return "signed", rng.choice(special, shape), {}, -3.5
        case "i8":
            return "long", rng.integers(-(2**40), 2**40, shape), {"missing_value": 5}, 0
        case "u8":
            return "decimal", rng.integers(0, 2**64 - 1, shape, dtype=np.uint64), {}, 0
        case "bool":
            return "bool", rng.random(shape) < 0.5, {}, False
        case "scaled":
            attrs = {"scale_factor": 0.01, "add_offset": 300.0, "_FillValue": 9}
            return "positive", rng.integers(0, 20, shape).astype(np.int16), attrs, 9
        case "when":
            values = rng.integers(0, 10_000, shape).astype(np.int32)
            return "time", values, {"units": "hours since 2001-01-01", "_FillValue": 77}, 77
        case "text":
            return "other", np.array(["a", "é", ""], dtype="U1")[rng.integers(0, 3, shape)], {}, ""
        case "complex":
            return "other", rng.normal(size=shape) + 1j, {}, 0
    limits = np.iinfo(kind)
    values = rng.integers(limits.min, limits.max, shape, dtype=kind, endpoint=True)
    return "int" if kind != "u4" else "long", values, {"_FillValue": int(values.flat[0])}, 1


def fill(group: "zarr.Group", case: Case, rng: np.random.Generator) -> None:
    ndim = int(rng.integers(1, 4))
    shape = tuple(int(n) for n in rng.integers(3, [30, 14, 9][:ndim]))
    names = ["time", "lat", "lon"][:ndim]
    for name, size in zip(names, shape, strict=True):
        case.dims[name], values, attrs = make_coordinate(rng, size)
        if values is not None:
            put(group, name, values, name, max(1, size // 2), **attrs)
    for number in range(4):
        kind, values, attrs, filler = make_values(rng, shape)
        order = rng.permutation(ndim)  # dimensions of a variable are in any order
        chunks = tuple(int(rng.integers((n + 2) // 3, n + 1)) for n in shape)
        name = f"v{number}"
        array = group.create_array(
            name,
            shape=tuple(shape[k] for k in order),
            chunks=tuple(chunks[k] for k in order),
            dtype=values.dtype,
            fill_value=filler,
            dimension_names=[names[k] for k in order],
        )
        array.attrs.update(attrs)
        case.variables[name] = kind
        starts = itertools.product(*(range(0, n, c) for n, c in zip(shape, chunks, strict=True)))
        for start in starts:
            if rng.random() < 0.8:  # the others are missing
                where = tuple(slice(s, s + c) for s, c in zip(start, chunks, strict=True))
                array[tuple(where[k] for k in order)] = values[where].transpose(order)


def make_case(spark: SparkSession, folder: Path, seed: int) -> Case:
    rng = np.random.default_rng(seed)
    case = Case(f"aggregates_{seed}")
    repository = Repository.create(local_filesystem_storage(folder / case.name))
    with repository.transaction("main", message="table") as store:
        fill(zarr.group(store), case, rng)
    options = {"decodeCf": "false"} if rng.random() < 0.25 else {}
    if options:
        swap = {"time": "int", "positive": "signed"}
        case.dims = {name: swap.get(kind, kind) for name, kind in case.dims.items()}
        case.variables = {name: swap.get(kind, kind) for name, kind in case.variables.items()}
    options["partitionBytes"] = str(rng.choice([4000, 2**25]))
    frame = spark.read.format("icechunk").options(**options).load(str(folder / case.name))
    frame.createOrReplaceTempView(case.name)
    spark.createDataFrame(frame.toArrow()).createOrReplaceTempView(case.rows)
    return case


# Random queries.

DERIVED = {
    "time": [
        "year({0})", "month({0})", "day({0})", "hour({0})", "minute({0})", "dayofyear({0})",
        "quarter({0})", "weekofyear({0})", "dayofweek({0})", "weekday({0})", "date({0})",
        "trunc({0}, 'MM')", "{0} > TIMESTAMP '2024-01-01'", "year({0}) * 100 + month({0})",
        "CASE WHEN month({0}) < 3 THEN 'winter' ELSE 'later' END", "second({0})",
    ],
    "float": [
        "floor({0} / 10)", "ceil({0} / 25)", "round({0}, -1)", "{0} > 0", "abs({0})", "-{0}",
        "CASE WHEN {0} > 10 THEN 'high' WHEN {0} < 0 THEN 'low' END", "coalesce({0}, 0)",
        "CAST({0} AS DOUBLE) * 0", "{0} IS NULL",
    ],
    "int": ["{0} % 3", "{0} > 2", "floor({0} / 10)", "{0} * 2 - 1", "CAST({0} AS DOUBLE)",
            "{0} IN (0, 1, 2)", "abs({0})", "greatest({0}, 2)"],
    "text": ["{0} > 'k2'", "{0} IS NULL"],
}  # fmt: skip

FUNCTIONS = {
    "positive": ["sum", "avg", "min", "max", "count"],
    "signed": ["min", "max", "count", "sum"],
    "int": ["sum", "avg", "min", "max", "count"],
    "long": ["sum", "min", "max", "count"],
    "decimal": ["min", "max", "count"],
    "bool": ["min", "max", "count", "bool_or"],
    "time": ["min", "max", "count"],
    "other": ["count"],
    "float": ["sum", "avg", "min", "max", "count"],
    "text": ["count"],
}


@dataclass(frozen=True)
class Query:
    """What is grouped by comes first in the rows; all of it can be pushed down."""

    groups: tuple[str, ...]
    values: tuple[str, ...]
    where: str = ""

    def on(self, table: str) -> str:
        where = f" WHERE {self.where}" if self.where else ""
        wanted = ", ".join([*self.groups, *self.values])
        text = f"SELECT {wanted} FROM {table}{where}"  # noqa: S608 -- our own words
        return text + (f" GROUP BY {', '.join(self.groups)}" if self.groups else "")


def make_query(case: Case, chance: random.Random) -> Query:
    groups: list[str] = []
    for _ in range(chance.choice([0, 1, 1, 2, 2, 3])):
        name = chance.choice(list(case.dims))
        kind = case.dims[name]
        groups.append(name if chance.random() < 0.4 else make_derived(name, kind, chance))
    groups = list(dict.fromkeys(groups))
    if set(case.dims) <= set(groups):  # then every row is a group
        groups.remove(chance.choice(list(case.dims)))
    of_values = make_value_condition(case, chance) if chance.random() < 0.4 else ""
    values = [
        make_aggregate(case, chance, only_variables=bool(of_values))
        for _ in range(chance.randint(1, 4))
    ]
    of_cells = make_condition(case, chance) if chance.random() < 0.5 else ""
    both = of_cells and of_values
    # not in brackets alone: Spark takes `t WHERE (v0)` for a name of the table and its column
    where = f"({of_cells}) AND ({of_values})" if both else of_cells or of_values
    return Query(tuple(groups), tuple(dict.fromkeys(values)), where)


def make_derived(name: str, kind: str, chance: random.Random) -> str:
    return chance.choice(DERIVED[kind]).format(name)


def make_aggregate(case: Case, chance: random.Random, *, only_variables: bool) -> str:
    if chance.random() < 0.15:
        return "count(*)"
    columns = case.variables if only_variables or chance.random() < 0.7 else case.dims
    name = chance.choice(list(columns))
    function = chance.choice(FUNCTIONS[columns[name]])
    wide = columns[name] in ("positive", "int") and chance.random() < 0.2
    return f"{function}(CAST({name} AS DOUBLE))" if wide else f"{function}({name})"


def make_condition(case: Case, chance: random.Random) -> str:
    name = chance.choice(list(case.dims))
    other = chance.choice(list(case.dims))
    simple = {
        "time": "month({0}) > 1",
        "float": "{0} > -12.5",
        "int": "{0} % 2 = 0",
        "text": "{0} <> 'k1é'",
    }
    one, two = simple[case.dims[name]].format(name), simple[case.dims[other]].format(other)
    return chance.choice([one, f"{one} OR NOT ({two})", f"{name} IS NULL", f"{one} AND {two}"])


NUMBERS = {
    "positive": ["0.5D", "250", "300.05D", "299.75F", "2e300D", "(-1)"],
    "signed": ["0", "(-3.5D)", "1e300D", "(-0.0D)", "double('inf')", "5e-324D"],
    "int": ["0", "7", "(-128)", "200", "70000", "1.5D"],
    "long": ["0", "5", "1099511627775", "(-3)", "4294967295"],
}


def make_value_condition(case: Case, chance: random.Random, depth: int = 2) -> str:
    """A condition on variables that the Python side evaluates."""
    if depth and chance.random() < 0.5:
        one, two = (make_value_condition(case, chance, depth - 1) for _ in range(2))
        return chance.choice([f"({one} AND {two})", f"({one} OR {two})", f"NOT ({one})"])
    name = chance.choice(list(case.variables))
    kind = case.variables[name]
    if kind == "bool" and chance.random() < 0.8:
        return chance.choice([name, f"NOT {name}"])
    if kind not in NUMBERS or chance.random() < 0.15:
        return chance.choice([f"{name} IS NULL", f"{name} IS NOT NULL"])
    numbers = NUMBERS[kind]
    left, right = chance.choice(numbers), chance.choice(numbers)
    operator = chance.choice(["=", "<>", "<", "<=", ">", ">="])
    return chance.choice(
        [
            f"{name} {operator} {left}",
            f"{left} {operator} {name}",
            f"{name} BETWEEN {left} AND {right}",
            f"{name} IN ({', '.join(numbers)})",
            f"CAST({name} AS DOUBLE) {operator} {left}",
        ]
    )


# The check.


def plan_of(frame: DataFrame) -> str:
    return str(frame._jdf.queryExecution().explainString(_mode(frame)))


def _mode(frame: DataFrame) -> Any:
    gateway = frame.sparkSession._jvm
    assert gateway is not None
    return gateway.org.apache.spark.sql.execution.ExplainMode.fromString("extended")


def is_pushed(frame: DataFrame) -> bool:
    """Whether blocks are aggregated, or the answer is known without any."""
    plan = plan_of(frame)
    return PUSHED in plan or "LocalTableScan" in plan.partition("== Physical Plan ==")[2]


def comparable(rows: list[Row], groups: int) -> dict[Any, list[Any]]:
    """Values by group: NaN is one group, and so are the zeros."""
    found: dict[Any, list[Any]] = {}
    for row in rows:
        key = tuple(_as_key(value) for value in row)
        assert key[:groups] not in found, f"{key[:groups]} is twice in the result"
        found[key[:groups]] = list(row)[groups:]
    return found


def _as_key(value: Any) -> Any:
    if not isinstance(value, float):
        return value
    return "NaN" if math.isnan(value) else value + 0.0


def equal(a: Any, b: Any, *, exact: bool) -> bool:
    if not isinstance(a, float) or not isinstance(b, float):
        return type(a) is type(b) and a == b
    if math.isnan(a) or math.isnan(b):
        return math.isnan(a) and math.isnan(b)
    return a == b or (not exact and math.isclose(a, b, rel_tol=1e-12, abs_tol=1e-9))


def check(spark: SparkSession, case: Case, query: Query) -> None:
    text = query.on(case.name)
    pushed, wanted = spark.sql(text), spark.sql(query.on(case.rows))
    assert is_pushed(pushed), f"{text} is not pushed:\n{plan_of(pushed)}"
    assert pushed.schema == wanted.schema
    count = len(query.groups)
    ours, right = comparable(pushed.collect(), count), comparable(wanted.collect(), count)
    assert ours.keys() == right.keys(), text
    for key, values in right.items():
        for name, a, b in zip(query.values, ours[key], values, strict=True):
            exact = not name.startswith(("sum", "avg"))
            assert equal(a, b, exact=exact), f"{text}: {name} of {key} is {a}, expected {b}"


@pytest.fixture(scope="module")
def quick(spark: SparkSession) -> Iterator[SparkSession]:
    """One partition after a shuffle, and times in a zone that has summer time."""
    settings = {
        "spark.sql.shuffle.partitions": "1",
        "spark.sql.session.timeZone": "America/St_Johns",
        "spark.sql.adaptive.enabled": "false",
    }
    before = {name: str(spark.conf.get(name)) for name in settings}
    for name, value in settings.items():
        spark.conf.set(name, value)
    yield spark
    for name, value in before.items():
        spark.conf.set(name, value)


@pytest.mark.parametrize("seed", range(TABLES))
def test_random_aggregates_are_those_of_the_rows(
    quick: SparkSession, tmp_path: Path, seed: int
) -> None:
    case = make_case(quick, tmp_path, seed)
    chance = random.Random(seed)
    for _ in range(QUERIES):
        check(quick, case, make_query(case, chance))


@pytest.mark.parametrize("seed", range(TABLES))
def test_random_conditions_on_values_choose_the_same_rows(
    quick: SparkSession, tmp_path: Path, seed: int
) -> None:
    case = make_case(quick, tmp_path, 50 + seed)
    chance = random.Random(seed)
    for _ in range(QUERIES):
        check_rows(quick, case, chance)


def check_rows(spark: SparkSession, case: Case, chance: random.Random) -> None:
    """Some columns, perhaps none that Python sends, of the rows for which a condition holds."""
    columns = [*case.dims, *case.variables]
    wanted = chance.sample(columns, chance.randint(1, len(columns)))
    where = make_value_condition(case, chance)
    if chance.random() < 0.3:
        where = f"({where}) AND ({make_condition(case, chance)})"
    found, right = (
        spark.sql(f"SELECT {', '.join(wanted)} FROM {table} WHERE {where}")  # noqa: S608
        for table in (case.name, case.rows)
    )
    assert sorted(map(repr, found.collect())) == sorted(map(repr, right.collect())), where


@pytest.mark.long
@pytest.mark.parametrize("seed", range(100, 100 + LONG_TABLES))
def test_many_random_aggregates_are_those_of_the_rows(
    quick: SparkSession, tmp_path: Path, seed: int
) -> None:
    case = make_case(quick, tmp_path, seed)
    chance = random.Random(seed)
    for _ in range(4 * QUERIES):
        check(quick, case, make_query(case, chance))
        check_rows(quick, case, chance)


# Chosen cases.


@contextmanager
def configured(spark: SparkSession, name: str, value: str) -> Iterator[None]:
    before = str(spark.conf.get(name))
    spark.conf.set(name, value)
    try:
        yield
    finally:
        spark.conf.set(name, before)


@pytest.fixture(scope="module")
def weather(quick: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Case:
    """Coordinates are inline chunks, variables are objects of a chunk each."""
    path = tmp_path_factory.mktemp("aggregates") / "weather"
    case = Case("aggregates_weather")
    rng = np.random.default_rng(1)
    shape = (24, 10, 20)
    with Repository.create(local_filesystem_storage(path)).transaction("main", message="w") as s:
        group = zarr.group(s)
        put(group, "time", np.arange(24), "time", 24, units="hours since 2024-03-10")
        put(group, "lat", np.linspace(45, -45, 10), "lat", 10)
        put(group, "lon", np.arange(20), "lon", 20)
        put(group, "t", rng.uniform(200, 300, shape), "time lat lon", (6, 10, 20))
        big = rng.integers(2**62, 2**63 - 1, shape) * rng.choice([1, -1], shape)
        put(group, "big", big, "time lat lon", (12, 10, 10))
        put(group, "huge", np.abs(big), "time lat lon", (12, 10, 10))
        count = rng.integers(0, 2**64 - 1, shape, dtype=np.uint64)
        put(group, "unsigned", count, "time lat lon", (12, 10, 20))
    frame = quick.read.format("icechunk").load(str(path))
    frame.createOrReplaceTempView(case.name)
    quick.createDataFrame(frame.toArrow()).createOrReplaceTempView(case.rows)
    case.variables["path"] = str(path)
    return case


@pytest.mark.parametrize(
    "query",
    [
        Query((), ("count(*)", "count(t)", "sum(t)", "min(lat)"), "lat > 100"),
        Query((), ("count(*)", "count(t)", "avg(t)", "max(big)"), "t > 1000"),
        Query(("lat",), ("count(*)", "sum(t)"), "lat > 100"),
        Query(("lat",), ("count(*)", "sum(t)"), "t > 299.9"),
        Query((), ("count(*)", "sum(lon)", "max(time)"), "lon IS NULL"),
        Query(("hour(time)",), ("avg(t)",), "lat > 0 OR lon < 3 OR hour(time) = 7"),
        Query(("lat", "lon"), ("avg(t)",)),
        Query(("lat", "lon", "hour(time) > 6"), ("max(t)", "count(lon)", "avg(lon)")),
    ],
)
def test_aggregates_of_chosen_cells(quick: SparkSession, weather: Case, query: Query) -> None:
    check(quick, weather, query)


@pytest.mark.parametrize(
    "query",
    [
        "SELECT count(DISTINCT lat) FROM {}",
        "SELECT sum(t) FILTER (WHERE lat > 0) FROM {}",
        "SELECT sum(unsigned), avg(unsigned) FROM {}",  # Spark casts partial sums to DECIMAL(20,0)
        "SELECT avg(big) FROM {}",  # Spark would add up BIGINT, which overflows, not DOUBLE
        "SELECT sum(t) FROM {} WHERE t * 2 > 500",
        "SELECT sum(t), max(lat) FROM {} WHERE t > 250",
        "SELECT sum(t) FROM {} WHERE t > 250 OR lat > 0",
        "SELECT sum(t) FROM {} WHERE t < double('NaN')",
        "SELECT lat + lon AS both, count(*) FROM {} GROUP BY lat + lon",
        "SELECT date_trunc('day', time), count(*) FROM {} GROUP BY 1",
        "SELECT max(t * 2) FROM {}",
        "SELECT stddev(t) FROM {}",
        "SELECT time, lat, lon, max(t) FROM {} GROUP BY ALL",
        "SELECT floor(10 / (lon + 1000)) AS f, rand(3) > 2 AS r, count(*) FROM {} GROUP BY ALL",
    ],
)
def test_what_is_not_certain_is_left_to_spark(
    quick: SparkSession, weather: Case, query: str
) -> None:
    ours, right = quick.sql(query.format(weather.name)), quick.sql(query.format(weather.rows))
    assert not is_pushed(ours)
    pairs = zip(sorted(ours.collect()), sorted(right.collect()), strict=True)
    for a, b in pairs:
        assert all(equal(x, y, exact=False) for x, y in zip(a, b, strict=True))


@pytest.mark.parametrize("group", ["", "GROUP BY lat", "GROUP BY hour(time) % 2"])
def test_sums_that_overflow_do_what_spark_does(
    quick: SparkSession, weather: Case, group: str
) -> None:
    for column in ("big", "huge"):
        query = f"SELECT sum({column}) AS s FROM {{}} {group} ORDER BY s"  # noqa: S608 -- our words
        ours, right = query.format(weather.name), query.format(weather.rows)
        assert is_pushed(quick.sql(ours))
        with configured(quick, "spark.sql.ansi.enabled", "false"):
            assert quick.sql(ours).collect() == quick.sql(right).collect()  # it wraps around
    ours = f"SELECT sum(huge) FROM {weather.name} {group}"  # noqa: S608 -- our words
    with pytest.raises(PySparkException, match="ARITHMETIC_OVERFLOW"):
        quick.sql(ours).collect()
    ours = f"SELECT try_sum(huge) AS s FROM {weather.name} {group}"  # noqa: S608 -- our words
    assert {row.s for row in quick.sql(ours).collect()} == {None}


def test_without_ansi_most_is_pushed_as_well(quick: SparkSession, weather: Case) -> None:
    with configured(quick, "spark.sql.ansi.enabled", "false"):
        check(quick, weather, Query(("hour(time)", "lon > 3"), ("avg(t)", "sum(lon)", "max(big)")))


def test_another_time_zone_than_at_loading_is_left_to_spark(
    quick: SparkSession, weather: Case
) -> None:
    query = "SELECT hour(time) AS h, count(*) AS n FROM {} GROUP BY ALL"
    assert is_pushed(quick.sql(query.format(weather.name)))
    analysed = quick.sql(query.format(weather.name))
    right = sorted(quick.sql(query.format(weather.rows)).collect())
    with configured(quick, "spark.sql.session.timeZone", "Asia/Kolkata"):
        assert sorted(analysed.collect()) == right  # in the zone of its analysis
        now = quick.sql(query.format(weather.name))
        assert not is_pushed(now)
        assert sorted(now.collect()) == sorted(quick.sql(query.format(weather.rows)).collect())


@pytest.mark.parametrize(
    "end",
    ["ORDER BY lat LIMIT 3", "HAVING lat > 10 ORDER BY 1", "ORDER BY 3 DESC LIMIT 4 OFFSET 1"],
)
def test_limits_and_orders_apply_to_groups(quick: SparkSession, weather: Case, end: str) -> None:
    query = f"SELECT lat, count(*), min(big) FROM {{}} GROUP BY lat {end}"  # noqa: S608 -- our words
    ours, right = quick.sql(query.format(weather.name)), quick.sql(query.format(weather.rows))
    assert is_pushed(ours)
    assert ours.collect() == right.collect()


def test_one_frame_serves_several_aggregates(quick: SparkSession, weather: Case) -> None:
    frame, rows = quick.table(weather.name), quick.table(weather.rows)
    assert frame.groupBy("lat").count().count() == 10
    assert frame.where("lat > 0").count() == rows.where("lat > 0").count()
    assert frame.count() == rows.count()
    both = frame.groupBy("lat").max("t").unionAll(frame.where("lat > 0").groupBy("lat").max("t"))
    assert both.count() == 15


def test_no_chunk_is_read_for_what_coordinates_tell(
    quick: SparkSession, weather: Case, tmp_path: Path
) -> None:
    shutil.copytree(weather.variables["path"], tmp_path / "copy")
    shutil.rmtree(tmp_path / "copy" / "chunks")
    frame = quick.read.format("icechunk").load(str(tmp_path / "copy"))
    frame.createOrReplaceTempView("aggregates_without_chunks")
    case = Case("aggregates_without_chunks")
    quick.table(weather.rows).createOrReplaceTempView(case.rows)
    for query in (
        Query((), ("count(*)",)),
        Query((), ("count(*)", "count(lat)", "min(time)", "max(lat)", "sum(lon)"), "lon > 3"),
        Query(("lat",), ("count(*)",)),
        Query(("month(time)", "lat > 0"), ("count(*)", "max(hour(time))")),
    ):
        check(quick, case, query)
    assert "chunks: 0 of 0" in plan_of(frame.groupBy("lat").count())
    known = frame.where("lat > 0 OR lon < 3").selectExpr("count(*)", "max(lat)", "count(time)")
    assert "LocalTableScan" in plan_of(known)  # no task runs
    assert known.collect() == [(24 * (5 * 20 + 5 * 3), 45.0, 24 * (5 * 20 + 5 * 3))]
    with pytest.raises(PySparkException):
        frame.agg({"t": "max"}).collect()
