"""One snapshot, read by several processes through xarray, while another process writes."""

from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from tempfile import TemporaryDirectory

import numpy as np
import xarray as xr
from engine import icechunk


def mean_of(session: "icechunk.Session", day: int) -> float:
    """Runs in another process: a read-only session can be sent there."""
    with xr.open_zarr(session.store, consolidated=False, chunks=None) as dataset:
        return float(dataset["t2m"].isel(day=day).mean())


def main(folder: str) -> None:
    repo = icechunk.Repository.create(icechunk.local_filesystem_storage(f"{folder}/weather"))
    days = np.arange(8.0).repeat(6).reshape(8, 2, 3)
    dataset = xr.Dataset({"t2m": (("day", "lat", "lon"), 280 + days)})
    with repo.transaction("main", message="eight days") as store:
        dataset.to_zarr(store, consolidated=False, encoding={"t2m": {"chunks": (1, 2, 3)}})

    session = repo.readonly_session("main")
    with ProcessPoolExecutor(2, mp_context=get_context("spawn")) as pool:
        tasks = [pool.submit(mean_of, session, day) for day in range(8)]
        # A commit by another process does not disturb them: a session stays at its snapshot.
        with repo.transaction("main", message="all zero") as store:
            (dataset * 0).to_zarr(store, mode="w", consolidated=False)
        means = [task.result() for task in tasks]
    print("means:", means)
    assert means == [280.0 + day for day in range(8)]


if __name__ == "__main__":
    with TemporaryDirectory() as made:
        main(made)
