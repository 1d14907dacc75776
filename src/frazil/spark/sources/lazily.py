"""Variables of xarray whose values are read when they are looked at."""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    import xarray as xr

type Key = tuple[int | slice, ...]


def lazy_variable(
    dims: tuple[str, ...],
    shape: tuple[int, ...],
    dtype: np.dtype[Any],
    read: Callable[[Key], npt.NDArray[Any]],
    attrs: Mapping[str, object],
) -> "xr.Variable":
    """`read` gets an integer or a slice for each dimension."""
    import xarray as xr  # noqa: PLC0415 -- of the extra `ingest`, and slow to load
    from xarray.backends import BackendArray  # noqa: PLC0415 -- see above
    from xarray.core import indexing  # noqa: PLC0415 -- see above

    class Values(BackendArray):
        def __init__(self) -> None:
            self.shape = shape
            self.dtype = dtype

        def __getitem__(self, key: indexing.ExplicitIndexer) -> Any:
            support = indexing.IndexingSupport.BASIC
            return indexing.explicit_indexing_adapter(key, shape, support, read)

    return xr.Variable(dims, indexing.LazilyIndexedArray(Values()), dict(attrs))
