"""A data set written, appended to and corrected with xarray: three versions of it."""

import numpy as np
import pandas as pd
import xarray as xr
from engine import icechunk


def weather(start: str, hours: int) -> xr.Dataset:
    times = pd.date_range(start, periods=hours, freq="h")
    values = 280 + np.arange(hours * 3, dtype="f4").reshape(hours, 3) / 10
    return xr.Dataset(
        {"t2m": (("time", "x"), values, {"units": "K"})},
        coords={"time": times, "x": [0.0, 0.5, 1.0]},
        attrs={"title": "weather"},
    )


def read(session: "icechunk.Session") -> xr.Dataset:
    found: xr.Dataset = xr.open_zarr(session.store, consolidated=False).load()
    return found


def main() -> None:
    repo = icechunk.Repository.create(icechunk.in_memory_storage())
    first, second = weather("2024-01-01", 24), weather("2024-01-02", 12)

    with repo.transaction("main", message="1 January") as store:
        chunks = {"t2m": {"chunks": (6, 3)}}
        first.to_zarr(store, consolidated=False, encoding=chunks)
    with repo.transaction("main", message="half of 2 January") as store:
        second.to_zarr(store, consolidated=False, append_dim="time")
    both = read(repo.readonly_session("main"))
    print("hours:", both.sizes["time"], "until", both.indexes["time"][-1])
    xr.testing.assert_equal(both, xr.concat([first, second], dim="time"))

    # Six hours were wrong.
    with repo.transaction("main", message="calibrated") as store:
        part = (both[["t2m"]] + 1).isel(time=slice(6, 12)).drop_vars("x")
        part.to_zarr(store, consolidated=False, region={"time": slice(6, 12)})
    corrected = read(repo.readonly_session("main"))
    change = corrected["t2m"] - both["t2m"]
    print("corrected hours:", int((change[:, 0] > 0.5).sum()))

    # Every version is still there.
    for snapshot in repo.ancestry(branch="main"):
        if snapshot.parent_id:
            hours = read(repo.readonly_session(snapshot_id=snapshot.id)).sizes["time"]
            print(f"- {snapshot.message}: {hours} hours")


if __name__ == "__main__":
    main()
