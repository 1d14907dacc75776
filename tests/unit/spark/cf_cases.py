"""Random arrays with CF attributes, and xarray's reading of them."""

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import xarray as xr
from hypothesis import strategies as st

SIZE = 6
DTYPES = ("i1", "i2", "i4", "i8", "u1", "u2", "u4", "f4", "f8", ">i2", ">f4")
_UNITS = ("days", "hours", "Minutes", "second", "milliseconds", "microseconds", "nanoseconds")
_REFERENCES = ("1970-01-01", "2000-02-29 12:30:00", "1900-1-1", "2010-07-01T06:00:00", "1999")
_CALENDARS = (None, "standard", "gregorian", "proleptic_gregorian")
_MOST = 20_000  # of what is counted, so that days stay in centuries that all libraries have


@dataclass(frozen=True)
class Encoded:
    stored: npt.NDArray[Any]
    attrs: dict[str, Any]

    @property
    def is_time(self) -> bool:
        return "since" in str(self.attrs.get("units"))

    @property
    def expected(self) -> npt.NDArray[Any]:
        """xarray's values: numbers with NaN, or datetime64[us] with NaT."""
        coder = xr.coders.CFDatetimeCoder(time_unit="ns" if self._is_fine else "us")
        dataset = xr.Dataset({"v": ("x", self.stored, dict(self.attrs))})
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # two fill values, and such
            decoded = xr.decode_cf(dataset, decode_times=coder, decode_timedelta=False)[
                "v"
            ].to_numpy()
        return decoded.astype("datetime64[us]") if decoded.dtype.kind == "M" else decoded

    @property
    def _is_fine(self) -> bool:
        return "nano" in str(self.attrs.get("units"))


@st.composite
def encodings(draw: st.DrawFn, *, times: bool | None = None, distinct: bool = False) -> Encoded:
    """Values and attributes. `times`: whether they count time; `distinct`: no value twice."""
    dtype = np.dtype(draw(st.sampled_from(DTYPES)))
    is_time = draw(st.booleans()) if times is None else times
    stored = np.array(draw(_values(dtype, small=is_time, distinct=distinct)), dtype=dtype)
    attrs: dict[str, Any] = {}
    if is_time:
        unit = draw(st.sampled_from(_UNITS))
        attrs["units"] = f"{unit} since {draw(st.sampled_from(_REFERENCES))}"
        calendar = draw(st.sampled_from(_CALENDARS))
        attrs |= {} if calendar is None else {"calendar": calendar}
    else:
        attrs |= draw(st.sampled_from([{}, {"units": "K"}, {"units": "days"}]))
    # xarray 2026.9 compares fill values of swapped bytes
    if dtype.kind in "iu" and dtype.isnative and draw(st.booleans()):
        attrs["_Unsigned"] = draw(st.sampled_from(["true", "false"]))
        if dtype.itemsize > (2 if is_time else 4):  # no library has such times or such floats
            stored = np.unique(np.abs(stored)) if distinct else np.abs(stored)
    attrs |= draw(_packing())
    attrs |= draw(_missing(stored, attrs))
    return Encoded(stored, attrs)


def _values(
    dtype: np.dtype[Any], *, small: bool, distinct: bool
) -> st.SearchStrategy[list[int]] | st.SearchStrategy[list[float]]:
    if dtype.kind == "f":
        limit = _MOST if small else 1e6
        numbers: Any = st.floats(-limit, limit, width=32 if dtype.itemsize == 4 else 64)
        numbers = numbers if distinct else numbers | st.just(np.nan)
        return st.lists(numbers, min_size=SIZE, max_size=SIZE, unique=distinct)
    info = np.iinfo(dtype)
    # beyond 2**50 xarray's floats are no longer the integers
    low, high = (
        max(info.min, -_MOST if small else -(2**50)),
        min(info.max, _MOST if small else 2**50),
    )
    return st.lists(st.integers(low, high), min_size=SIZE, max_size=SIZE, unique=distinct)


def _packing() -> st.SearchStrategy[dict[str, float]]:
    scales = st.sampled_from([0.5, 0.01, -0.1, 2.0, 0.1])
    offsets = st.sampled_from([0.0, 273.15, -10.0, 12.0])
    return st.one_of(
        st.just({}),
        st.builds(lambda scale: {"scale_factor": scale}, scales),
        st.builds(lambda offset: {"add_offset": offset}, offsets | st.just(3)),
        st.builds(lambda s, o: {"scale_factor": s, "add_offset": o}, scales, offsets),
    )


@st.composite
def _missing(draw: st.DrawFn, stored: npt.NDArray[Any], attrs: dict[str, Any]) -> dict[str, float]:
    """Fill values that occur, mostly."""
    chosen: dict[str, Any] = {}
    view = stored
    if stored.dtype.kind == "i" and attrs.get("_Unsigned") == "true":
        view = stored.astype(f"u{stored.dtype.itemsize}")
    elif stored.dtype.kind == "u" and attrs.get("_Unsigned") == "false":
        view = stored.astype(f"i{stored.dtype.itemsize}")
    if draw(st.booleans()):
        # xarray takes it as the signed number, whichever of the two is stored
        signed = stored if view.dtype.kind == "u" else view
        chosen["_FillValue"] = draw(st.sampled_from([*signed.tolist(), 7]))
    if draw(st.booleans()):
        # and this one as it is after `_Unsigned`
        chosen["missing_value"] = draw(st.sampled_from([*view.tolist(), 7]))
    if stored.dtype.kind in "iu":
        return {key: int(value) for key, value in chosen.items()}
    return chosen
