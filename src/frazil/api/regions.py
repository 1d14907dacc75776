"""Parts of arrays as numpy arrays, read and written at once: for pipelines."""

from typing import Any

import numpy as np
import numpy.typing as npt

from frazil.api.session import IcechunkStore, Session
from frazil.engine.session import session as engine
from frazil.errors import InvalidInputError, ReadOnlyStoreError
from frazil.paths import NodePath
from frazil.zarrstore import arrays
from frazil.zarrstore.arrays import GivenSelection as Selection
from frazil.zarrstore.arrays import select, selected_shape


def read_region(
    source: Session | IcechunkStore,
    path: str,
    selection: Selection = ...,
    *,
    out: npt.NDArray[Any] | None = None,
) -> npt.NDArray[Any]:
    """The selected part of the array at `path`; integers, slices and `...` select as in numpy.

    Chunks are found by one lookup, fetched together and decoded on threads. With `out`, the values
    are put into that array, which is given back; it has the shape of the selection.
    """
    where = NodePath.from_key_prefix(path)
    selected = _select(source.engine, where, selection)
    if out is not None and out.shape != (shape := selected_shape(selected)):
        raise InvalidInputError(f"`out` has the shape {out.shape}, what is selected {shape}")
    return arrays.read_region(source.engine, where, selected, out)


def write_region(
    target: Session | IcechunkStore, path: str, selection: Selection, values: npt.ArrayLike
) -> None:
    """Overwrites the selected part of the array at `path`; `values` are broadcast to its shape.

    Chunks are encoded on threads and stored together. Any number of threads may write to one array:
    those that write to parts of one chunk take turns.
    """
    if target.read_only:
        raise ReadOnlyStoreError("read-only: nothing can be written to it")
    where = NodePath.from_key_prefix(path)
    selected = _select(target.engine, where, selection)
    given = np.broadcast_to(np.asarray(values), selected_shape(selected))
    arrays.write_region(target.engine, where, selected, given)


def _select(session: engine.Session, path: NodePath, selection: Selection) -> arrays.Selection:
    array = session.node(path).array
    if array is None:
        raise InvalidInputError(f"there is not an array at `{path}`", kind="not-an-array")
    return select(selection, array.shape)
