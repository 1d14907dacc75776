"""What a source says about itself before any bulk data is read.

A description is small and picklable: executors make one per file, the driver plans with them.
Everything is undecoded (CF packing, raw times), because ingest stores what the file stores.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from frazil.spark.sources.stored import Storage

type Attributes = Mapping[str, object]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class VariableDescription:
    """One variable of a source.

    `values` are given for dimension coordinates, which planning compares and concatenates.
    `digest` stands for the values of every other variable that does not have the concat dimension:
    equal digests mean equal dtype, shape and values.
    """

    name: str
    dims: tuple[str, ...]
    shape: tuple[int, ...]
    dtype: np.dtype[np.generic]  # native byte order; object means text
    attrs: Attributes
    chunks: tuple[int, ...] | None  # as stored, None when contiguous
    values: npt.NDArray[np.generic] | None = None
    digest: bytes | None = None
    storage: Storage | None = None  # None where nobody asked

    @property
    def is_dimension_coordinate(self) -> bool:
        return self.dims == (self.name,)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SourceDescription:
    """`mark` changes when the source does; empty where nobody asked."""

    path: str
    attrs: Attributes
    variables: Mapping[str, VariableDescription]
    mark: str = ""

    @property
    def sizes(self) -> dict[str, int]:
        """Length of every dimension that a variable has."""
        return {
            dim: length
            for variable in self.variables.values()
            for dim, length in zip(variable.dims, variable.shape, strict=True)
        }
