"""Arrays made of numpy's, or extended with them."""

from collections.abc import Mapping
from typing import Any

import numpy.typing as npt

from frazil.errors import AlreadyExistsError, InvalidInputError
from frazil.paths import ROOT, NodePath
from frazil.repo.session import Session
from frazil.zarrstore.arrays import open_array, open_group, write_region

_GROUP = b'{"zarr_format":3,"node_type":"group","attributes":{}}'


def create(
    session: Session,
    path: NodePath,
    values: npt.NDArray[Any],
    dims: tuple[str, ...] | None,
    chunks: Mapping[str, int],
    *,
    overwrite: bool,
) -> tuple[int, ...]:
    """A new array, and the groups above it. Returns its shape."""
    if not path.name:
        raise InvalidInputError("an array needs a name: the root is a group")
    if session.find_node(path) is not None and not overwrite:
        raise AlreadyExistsError(f"{path} is there already: --overwrite replaces it")
    if dims is not None and len(dims) != values.ndim:
        raise InvalidInputError(
            f"--dims names {len(dims)} dimensions, the file has {values.ndim}: {values.shape}"
        )
    names = dims or tuple(f"dim_{k}" for k in range(values.ndim))
    unknown = sorted({*chunks} - {*names})
    if unknown:
        raise InvalidInputError(
            f"--chunks names {unknown[0]!r}; the dimensions are {', '.join(names) or 'none'}"
        )
    for above in reversed([*path.ancestors]):
        session.set_node_if_absent(above, _GROUP)
    lengths = (chunks.get(name, size) for name, size in zip(names, values.shape, strict=True))
    group = open_group(session, path.parent or ROOT)
    made = group.create_array(
        path.name,
        shape=values.shape,
        dtype=values.dtype,
        chunks=tuple(
            size if length < 0 else max(1, min(length, size))
            for length, size in zip(lengths, values.shape, strict=True)
        ),
        dimension_names=dims,
        overwrite=overwrite,
    )
    made[...] = values
    return values.shape


def append_to(
    session: Session, path: NodePath, values: npt.NDArray[Any], dim: str
) -> tuple[int, ...]:
    """Longer along `dim`. Returns the new shape."""
    array = open_array(session, path)
    names = getattr(array.metadata, "dimension_names", None) or ()
    if dim not in names:
        raise InvalidInputError(
            f"{path} has no dimension {dim!r}; it has {', '.join(map(str, names)) or 'no names'}"
        )
    axis = names.index(dim)
    before = array.shape
    rest = [size for k, size in enumerate(before) if k != axis]
    if values.ndim != len(before) or [n for k, n in enumerate(values.shape) if k != axis] != rest:
        raise InvalidInputError(
            f"{path} is {before}, the file {values.shape}: only {dim} may differ"
        )
    if not _fits(values, array.dtype):
        raise InvalidInputError(f"{path} holds {array.dtype}, the file {values.dtype}")
    after = tuple(n + values.shape[axis] * (k == axis) for k, n in enumerate(before))
    array.resize(after)
    where = tuple(slice(before[k] if k == axis else 0, n) for k, n in enumerate(after))
    write_region(session, path, where, values.astype(array.dtype))
    return after


def _fits(values: npt.NDArray[Any], dtype: Any) -> bool:
    """Of the same kind: a file may have wider numbers than the array."""
    return (
        values.dtype == dtype
        or values.dtype.kind == dtype.kind
        or (values.dtype.kind in "iu" and dtype.kind == "f")
    )
