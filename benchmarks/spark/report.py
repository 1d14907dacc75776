"""Results of a run: comparison of times and answers, lines to print, and tables of the page."""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.spark.engine import ENGINES
from benchmarks.spark.workloads import START, TARGETS, WORKLOADS

OURS = ("frazil", "frazil jobs")
TOLERANCE = 2e-5  # of digests; the reference adds float32 up in float32


@dataclass(slots=True)
class Row:
    """One engine in one workload: the fastest run, and what is to be said about it."""

    workload: str
    engine: str
    best: dict[str, Any] = field(default_factory=dict)  # empty if it failed
    first_s: float | None = None  # of a new process
    hundredth_s: float | None = None
    ready_s: float | None = None  # until a new process has a session
    remarks: list[str] = field(default_factory=list)


def rows_of(
    name: str, runs: Mapping[str, list[dict[str, Any]]], ready: Mapping[str, float]
) -> list[Row]:
    """Rows of all engines that could do the workload. `ready` is known if they began with it."""
    rows = []
    for engine, done in runs.items():
        if not done or not done[0]:
            continue
        row = Row(name, engine, ready_s=ready.get(engine))
        rows.append(row)
        if "error" in done[-1]:
            row.remarks.append(f"failed: {' '.join(done[-1]['error'].split())}")
            continue
        row.best = dict(min(done[1:] or done, key=lambda run: run["seconds"]))
        row.best["digest"] = done[-1].get("digest", ())  # what is appended to grows with each run
        row.best |= min(
            ({key: run[key] for key in ("cpu_seconds", "cpu_by_kind")} for run in done),
            key=lambda run: run["cpu_seconds"],
        )
        row.first_s = done[0]["seconds"] if ready else None
        if name == START:
            row.hundredth_s = float(np.median([run["seconds"] for run in done[-10:]]))
    _compare_answers(rows)
    return rows


def _compare_answers(rows: list[Row]) -> None:
    """Marks answers that differ from the reference's, or from the first if it has none."""
    answered = [row for row in rows if len(row.best.get("digest", ())) > 1]
    expected = next((row for row in answered if row.engine == "dask"), next(iter(answered), None))
    for row in answered:
        assert expected
        given, wanted = row.best["digest"], expected.best["digest"]
        if len(given) != len(wanted) or not np.allclose(given, wanted, TOLERANCE, TOLERANCE):
            row.remarks.append(f"WRONG ANSWER: not that of {expected.engine}")


@dataclass(frozen=True, slots=True)
class Verdict:
    """A target, and the ratio of the other's time to frazil's that was measured."""

    workload: str
    ours: str
    other: str
    target: float
    ratio: float
    cpu_ratio: float

    @property
    def text(self) -> str:
        return "reached" if self.ratio >= self.target else "**missed**"


def verdicts(rows: Iterable[Row]) -> Iterator[Verdict]:
    best = {(row.workload, row.engine): row.best for row in rows if row.best}
    for name, targets in TARGETS.items():
        for ours, wanted in targets.items():
            for other, target in wanted.items():
                if (name, ours) in best and (name, other) in best:
                    mine, theirs = best[name, ours], best[name, other]
                    cpu = theirs["cpu_seconds"] / max(mine["cpu_seconds"], 0.01)
                    ratio = theirs["seconds"] / mine["seconds"]
                    yield Verdict(name, ours, other, target, ratio, cpu)


def lines_of(rows: list[Row]) -> str:
    """The rows of one workload, to be read while the others run."""
    if not rows:
        return ""
    lines = [f"\n{rows[0].workload}: {WORKLOADS[rows[0].workload].title}"]
    base = next((row.best for row in rows if row.engine in OURS and row.best), None)
    for row in rows:
        if not (best := row.best):
            lines.append(f"  {row.engine:14}{'; '.join(row.remarks)}")
            continue
        parts = [
            f"  {row.engine:14}{best['seconds']:8.3f} s",
            f"CPU {best['cpu_seconds']:7.2f} s ({_cpu(row)})",
            f"memory {_memory(row)} MiB, read {best['read_bytes'] / 1e6:,.0f} MB",
            *([f"{best['seconds'] / base['seconds']:.2f} of frazil's time"] if base else []),
            *([f"session {row.ready_s:.1f} s, first {row.first_s:.2f} s"] if row.first_s else []),
            *([f"hundredth {row.hundredth_s:.3f} s"] if row.hundredth_s else []),
            *row.remarks,
        ]
        lines.append("  ".join(parts))
    lines += [
        f"  {one.ours} / {one.other}: {one.ratio:.2f} (CPU {one.cpu_ratio:.2f}),"
        f" target {one.target:g}: {one.text}"
        for one in verdicts(rows)
    ]
    return "\n".join(lines)


def merge(rows: list[Row], older: list[Row]) -> list[Row]:
    """Rows of this run, and older ones that it did not measure again, in order."""
    found = {(row.workload, row.engine): row for row in (*older, *rows)}
    return [
        found[name, engine] for name in WORKLOADS for engine in ENGINES if (name, engine) in found
    ]


def as_json(rows: list[Row]) -> list[dict[str, Any]]:
    return [asdict(row) for row in rows]


def write_page(page: Path, section: str, rows: list[Row], heading: str) -> None:
    """Replaces the tables between the comments `<!-- section -->` and `<!-- /section -->`."""
    begin, end = f"<!-- {section} -->", f"<!-- /{section} -->"
    tables = "\n\n".join([heading, *_tables(rows)])
    pattern = re.compile(f"{re.escape(begin)}.*?{re.escape(end)}", re.DOTALL)
    text, count = pattern.subn(lambda _: f"{begin}\n{tables}\n{end}", page.read_text())
    if not count:
        raise ValueError(f"{page} has no {begin}")
    page.write_text(text)


def _tables(rows: list[Row]) -> Iterator[str]:
    found = list(verdicts(rows))
    if found:
        yield "Ratios: the other's time over frazil's, and of the processor time.\n\n" + _table(
            ["workload", "by", "beside", "ratio", "of CPU", "target", ""],
            [
                [
                    WORKLOADS[one.workload].title,
                    one.ours,
                    one.other,
                    f"{one.ratio:.2f}",
                    f"{one.cpu_ratio:.2f}",
                    f"{one.target:g}",
                    one.text,
                ]
                for one in found
            ],
        )
    yield "Seconds, and seconds of all processors.\n\n" + _matrix(rows, _time)
    if any(row.first_s for row in rows if row.workload != START):
        yield "First run of a new process, seconds.\n\n" + _matrix(rows, _first)
    yield ("Peak of memory in MiB: driver + Java + Python workers.\n\n" + _matrix(rows, _memory))
    yield "Bytes read, MB.\n\n" + _matrix(rows, lambda row: f"{row.best['read_bytes'] / 1e6:,.0f}")
    if starts := [row for row in rows if row.hundredth_s]:
        yield "A small query of a new session, seconds.\n\n" + _table(
            ["by", "process until session", "first", "hundredth"],
            [
                [row.engine, f"{row.ready_s:.1f}", f"{row.first_s:.2f}", f"{row.hundredth_s:.3f}"]
                for row in starts
            ],
        )
    remarks = [f"- {row.workload}, {row.engine}: {text}" for row in rows for text in row.remarks]
    if remarks:
        yield "\n".join(remarks)


def _time(row: Row) -> str:
    return f"{row.best['seconds']:.2f} ({row.best['cpu_seconds']:.2f})"


def _first(row: Row) -> str:
    return "" if row.first_s is None else f"{row.first_s:.2f}"


def _memory(row: Row) -> str:
    return " + ".join(f"{size / 2**20:,.0f}" for size in row.best["peak_bytes"].values() if size)


def _cpu(row: Row) -> str:
    return " + ".join(f"{seconds:.2f}" for seconds in row.best["cpu_by_kind"].values())


def _matrix(rows: list[Row], cell: Any) -> str:
    engines = [engine for engine in ENGINES if any(row.engine == engine for row in rows)]
    found = {(row.workload, row.engine): row for row in rows}
    lines = []
    for name in dict.fromkeys(row.workload for row in rows if row.workload != START):
        chosen = [found.get((name, engine)) for engine in engines]
        texts = ["" if row is None else cell(row) if row.best else "failed" for row in chosen]
        if any(texts):
            lines.append([WORKLOADS[name].title, *texts])
    return _table(["workload", *engines], lines)


def _table(columns: list[str], lines: list[list[str]]) -> str:
    rule = "|---" * len(columns) + "|"
    return "\n".join([f"| {' | '.join(line)} |" for line in [columns, *lines]]).replace(
        "|\n", f"|\n{rule}\n", 1
    )
