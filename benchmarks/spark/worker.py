"""One engine in a process of its own: `-m benchmarks.spark.worker`.

Says when it is ready, then does the workload that a line names, and answers with what it took and
a digest of the result, as JSON on a line; with an empty object if the engine cannot do it.
"""

import json
import os
import sys
import time
import warnings
from dataclasses import asdict
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pandas as pd
import psutil

from benchmarks.spark.data import Sample
from benchmarks.spark.engine import ENGINES, Work, as_frame
from benchmarks.spark.meter import measure
from benchmarks.spark.workloads import plan


def digest(rows: pd.DataFrame) -> list[float]:
    """The number of rows, and the means and mean products of the columns, scaled to about 1."""
    columns = [_numbers(rows[name]) for name in sorted(rows.columns)]
    if rows.empty:
        return [len(rows)]
    values = np.column_stack([np.ones(len(rows)), *columns])
    sizes = np.sqrt((values**2).mean(axis=0))
    scaled = values / np.where(sizes > 0, sizes, 1)
    products = scaled.T @ scaled / len(rows)
    return [float(len(rows)), *sizes.tolist(), *products[np.triu_indices(len(sizes), 1)].tolist()]


def _numbers(column: pd.Series) -> npt.NDArray[np.float64]:
    if pd.api.types.is_datetime64_any_dtype(column):
        column = pd.to_datetime(column, utc=True).dt.as_unit("s").astype(np.int64) / 3600
    return column.to_numpy(np.float64)


def main(peer: str, root: str, hours: str, scratch: str) -> None:
    out = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)  # what libraries print goes elsewhere
    os.environ.setdefault("ICECHUNK_NO_LOGS", "1")
    warnings.simplefilter("ignore")  # of libraries that are only measured
    engine = ENGINES[peer].start(Sample(Path(root), int(hours)), Path(scratch))
    started = time.time() - psutil.Process().create_time()
    print(json.dumps({"ready": started}), file=out)
    planned: dict[str, Work | None] = {}
    for line in sys.stdin:
        workload, number = line.split()
        if workload not in planned:
            planned[workload] = plan(workload, engine)
        try:
            result = _run(planned[workload], int(number))
        except Exception as error:  # noqa: BLE001 -- an error is a result, too
            result = {"error": f"{type(error).__name__}: {error}"[:500]}
        print(json.dumps(result), file=out)


def _run(work: Work | None, number: int) -> dict[str, object]:
    if work is None:
        return {}
    answer, measured = measure(lambda: work(number))
    return {**asdict(measured), "digest": digest(as_frame(answer))}


if __name__ == "__main__":
    main(*sys.argv[1:])
