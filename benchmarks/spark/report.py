"""Rows of the report: what each engine took, and how it compares with frazil."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

from benchmarks.spark.workloads import START, TARGETS, WORKLOADS

OURS = ("frazil", "frazil jobs")
TOLERANCE = 2e-5  # of digests; the reference adds float32 up in float32
COLUMNS = (
    "by",
    "time",
    "CPU",
    "first",
    "driver, MiB",
    "Java",
    "workers",
    "read, MB",
    "time / frazil's",
    "CPU / frazil's",
    "remarks",
)


@dataclass(slots=True)
class Row:
    """One engine in one workload: the fastest run, and what is to be said about it."""

    workload: str
    title: str
    peer: str
    best: dict[str, Any] = field(default_factory=dict)  # empty if it failed
    first_s: float | None = None
    hundredth_s: float | None = None
    ready_s: float | None = None
    ratio: float | None = None  # of its time to frazil's; above 1, frazil is faster
    cpu_ratio: float | None = None
    remarks: list[str] = field(default_factory=list)

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


def rows_of(
    name: str,
    runs: Mapping[str, list[dict[str, Any]]],
    ready: Mapping[str, float],
) -> list[Row]:
    """Rows of all engines that could do the workload. `ready` is known if they began with it."""
    rows = []
    for peer, done in runs.items():
        if not done or not done[0]:
            continue
        row = Row(name, WORKLOADS[name].title, peer)
        rows.append(row)
        if "error" in done[-1]:
            row.remarks.append(f"failed: {done[-1]['error']}")
            continue
        row.best = min(done[1:] or done, key=lambda run: run["seconds"])
        row.best["cpu_seconds"] = min(run["cpu_seconds"] for run in done)
        row.first_s = done[0]["seconds"] if ready else None
        row.ready_s = ready.get(peer)
        if name == START:
            row.hundredth_s = float(np.median([run["seconds"] for run in done[-10:]]))
    _compare_answers(rows)
    _compare_times(rows, name)
    return rows


def _compare_answers(rows: list[Row]) -> None:
    """Marks answers that differ from the reference's, or from the first if it has none."""
    answered = [row for row in rows if len(row.best.get("digest", ())) > 1]
    expected = next((row for row in answered if row.peer == "dask"), next(iter(answered), None))
    for row in answered:
        assert expected
        given, wanted = row.best["digest"], expected.best["digest"]
        if len(given) != len(wanted) or not np.allclose(given, wanted, TOLERANCE, TOLERANCE):
            row.remarks.append(f"WRONG ANSWER: not that of {expected.peer}")


def _compare_times(rows: list[Row], name: str) -> None:
    known = {row.peer: row for row in rows if row.best}
    base = next((known[peer] for peer in OURS if peer in known), None)
    for row in known.values():
        if base:
            row.ratio = row.best["seconds"] / base.best["seconds"]
            row.cpu_ratio = row.best["cpu_seconds"] / max(base.best["cpu_seconds"], 0.01)
    for ours, wanted in TARGETS.get(name, {}).items():
        for other, ratio in wanted.items():
            if ours in known and other in known:
                reached = known[other].best["seconds"] / known[ours].best["seconds"]
                verdict = "reached" if reached >= ratio else "MISSED"
                known[ours].remarks.append(f"{other} {reached:.2f}, target {ratio:g}: {verdict}")


def _cells(row: Row) -> list[str]:
    if not row.best:
        return [row.peer, *[""] * 9, "; ".join(row.remarks)]
    best = row.best
    return [
        row.peer,
        f"{best['seconds']:.2f} s",
        f"{best['cpu_seconds']:.2f} s",
        "" if row.first_s is None else f"{row.first_s:.2f} s",
        *(f"{best[kind] / 2**20:,.0f}" for kind in ("driver_bytes", "java_bytes", "worker_bytes")),
        f"{best['read_bytes'] / 1e6:,.0f}",
        "" if row.ratio is None else f"{row.ratio:.2f}",
        "" if row.cpu_ratio is None else f"{row.cpu_ratio:.2f}",
        "; ".join([*_start(row), *row.remarks]),
    ]


def _start(row: Row) -> list[str]:
    if row.hundredth_s is None:
        return []
    ready = "" if row.ready_s is None else f"session after {row.ready_s:.1f} s, "
    return [f"{ready}first {row.first_s or 0:.2f} s, hundredth {row.hundredth_s:.3f} s"]


def heading() -> str:
    return f"| {' | '.join(COLUMNS)} |\n|---|---|{'---:|' * (len(COLUMNS) - 3)}---|"


def lines_of(rows: list[Row]) -> str:
    """Lines of a Markdown table; the title of the workload comes first."""
    if not rows:
        return ""
    title = f"| **{rows[0].title}** |{' |' * (len(COLUMNS) - 1)}"
    return "\n".join([title, *(f"| {' | '.join(_cells(row))} |" for row in rows)])
