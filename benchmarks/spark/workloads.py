"""All workloads by name: what each engine does, what it needs and what frazil is held to."""

from dataclasses import dataclass

from benchmarks.spark.engine import Engine, Work
from benchmarks.spark.queries import QUERIES

START = "start"


@dataclass(frozen=True, slots=True)
class Workload:
    title: str
    needs: set[str]  # parts of the sample
    small: bool = False  # worth more repetitions


# engine of frazil -> other engine -> least ratio of the other's time to frazil's
type Targets = dict[str, dict[str, float]]

_AGGREGATE: Targets = {
    "frazil": {"Parquet": 3.0, "dask": 0.7},
    "frazil jobs": {"Parquet": 4.0, "dask": 1.0},
}
_SMALL: Targets = {"frazil": {"Parquet": 1.5, "dask": 0.3}}
TARGETS: dict[str, Targets] = {
    "mean": _AGGREGATE,
    "latitude": _AGGREGATE,
    "climatology": _AGGREGATE,
    "box": _SMALL,
    "series": _SMALL,
    "scan": {"frazil": {"Parquet": 1.0}},
    "filter": {"frazil": {"Parquet": 1.0, "dask": 0.5}},
    "write": {
        "frazil": {"Parquet": 1.0, "dask": 0.7},
        "frazil jobs": {"Parquet": 1.0, "dask": 0.7},
    },
    "ingest": {"frazil jobs": {"dask": 1.0}},
    "rechunk": {"frazil jobs": {"dask": 1.0}},
}

_QUERIES = {
    name: Workload(
        query.title,
        {query.source, "parquet"} | ({"files"} if query.source == "virtual" else set()),
        query.small,
    )
    for name, query in QUERIES.items()
}
_JOBS = {
    "scan": Workload(
        "full scan of one variable with its coordinates, row by row", {"repo", "parquet"}
    ),
    "write": Workload("write of a result: one variable, all cells", {"repo", "parquet"}),
    "load": Workload("a Parquet table to arrays: one variable, all cells", {"parquet"}),
    "append": Workload("append of a day", {"maps", "parquet", "days"}),
    "ingest": Workload("copy ingest of 100 files", {"files"}),
    "virtual_ingest": Workload("virtual ingest of the same files", {"files"}),
    "references": Workload("virtual ingest of files with 10,000 chunks each", {"small_chunks"}),
    "rechunk": Workload("rechunk, from maps to time series", {"maps"}),
    "export": Workload("export of one variable to Parquet", {"repo", "parquet"}),
}
_START = Workload("the point again, a hundred times, by new processes", {"repo", "parquet"})
WORKLOADS = {**_QUERIES, **_JOBS, START: _START}


def plan(workload: str, engine: Engine) -> Work | None:
    """The work of one engine; None if it has no way to do it."""
    if workload == START:
        workload = "point"
    if workload in QUERIES:
        return engine.query(QUERIES[workload])
    work: Work | None = getattr(engine, workload)()
    return work
