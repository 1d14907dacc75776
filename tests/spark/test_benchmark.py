"""benchmarks/spark: engines are compared by their answers as well as by their times."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from benchmarks.spark.report import Row, rows_of, verdicts, write_page
from benchmarks.spark.run import main
from benchmarks.spark.worker import digest

KINDS = {"driver": 1, "java": 0, "worker": 0}
MEASURED = {"cpu_seconds": 1.0, "cpu_by_kind": KINDS, "peak_bytes": KINDS}


def _run(seconds: float, rows: pd.DataFrame) -> dict[str, object]:
    return {"seconds": seconds, **MEASURED, "read_bytes": 0, "digest": digest(rows)}


def _means() -> pd.DataFrame:
    return pd.DataFrame({"lat": np.arange(90.0), "t2m": 280 + np.arange(90.0) % 7})


def test_answers_that_differ_are_reported() -> None:
    right = _means()
    swapped = right.assign(t2m=right["t2m"].to_numpy()[::-1])
    short = right.iloc[:-1]
    reordered = right.sample(frac=1, random_state=1)
    for answer, wrong in ((reordered, False), (swapped, True), (short, True)):
        runs = {"frazil": [_run(1, answer)] * 2, "dask": [_run(1, right)] * 2}
        ours, dask = rows_of("latitude", runs, {})
        assert bool(ours.remarks) is wrong
        assert not dask.remarks


def test_targets_are_of_the_fastest_run() -> None:
    runs = {
        "frazil": [_run(9, _means()), _run(2, _means()), _run(1, _means())],
        "Parquet": [_run(9, _means()), _run(2.9, _means()), _run(5, _means())],
        "dask": [_run(9, _means()), _run(0.7, _means()), _run(5, _means())],
    }
    found = {one.other: one for one in verdicts(rows_of("mean", runs, {}))}
    assert found["Parquet"].ratio == pytest.approx(2.9)
    assert found["Parquet"].text == "**missed**"
    assert found["dask"].text == "reached"


def test_failures_and_missing_engines_are_rows_of_the_page(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("before\n<!-- 30m -->\nold\n<!-- /30m -->\nafter\n")
    runs: dict[str, list[dict[str, object]]] = {
        "frazil": [{"error": "RuntimeError:\n no"}],
        "Parquet": [{}],
        "dask": [_run(1, _means())],
    }
    write_page(page, "30m", rows_of("mean", runs, {}), "31 cells")
    text = page.read_text()
    assert "old" not in text
    assert text.startswith("before\n")
    assert text.endswith("after\n")
    assert "| global mean | failed | 1.00 (1.00) |" in text
    assert "- mean, frazil: failed: RuntimeError: no" in text
    with pytest.raises(ValueError, match="300m"):
        write_page(page, "300m", [], "")


@pytest.mark.spark
@pytest.mark.long
def test_engines_agree_on_a_tiny_table(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    results = tmp_path / "results.json"
    chosen = ["--only", "box", "mean", "--peers", "frazil", "dask", "DuckDB"]
    main(["--quick", "--repeat", "1", *chosen, "--folder", str(tmp_path), "--json", str(results)])
    rows = [Row(**row) for row in json.loads(results.read_text())]
    assert {(row.workload, row.engine) for row in rows} == {
        (name, engine) for name in ("box", "mean") for engine in ("frazil", "dask", "DuckDB")
    }
    assert all(row.best and not row.remarks for row in rows)
    assert "frazil / dask" in capsys.readouterr().out
