"""Values of the package: formats and sources, their descriptions, and how they store variables.

A description is small and picklable: executors make one per source, the driver plans with them.
Everything is undecoded (CF packing, raw times), because ingest stores what the file stores.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import numpy.typing as npt

from frazil.objectstore.remote import RemoteStore

if TYPE_CHECKING:  # an extra, and slow to load
    import xarray as xr

type Attributes = Mapping[str, object]


class Reader(Protocol):
    """Slabs of one source: raw values in native byte order; text as objects."""

    def read(self, name: str, selection: tuple[slice, ...]) -> npt.NDArray[np.generic]: ...
    def close(self) -> None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceFormat:
    """A format that ingest reads: how files of it are recognised and opened.

    All functions get the source, and the group inside of it that was asked for (None: the root).
    Two formats are equal if their names are. A format travels to executors inside of its sources,
    so its functions must be importable there; it need not be registered there.
    """

    name: str
    open: "Callable[[Source, str | None], xr.Dataset]" = field(compare=False, repr=False)
    """Opens an undecoded, lazy dataset. Damage raises any of the usual exceptions."""
    aliases: tuple[str, ...] = field(default=(), compare=False, repr=False)
    suffixes: tuple[str, ...] = field(default=(), compare=False, repr=False)
    """Lower case, with the dot: files in a directory that have one are sources."""
    magics: tuple[bytes, ...] = field(default=(), compare=False, repr=False)
    """First bytes of a file, at most four; they count for more than the suffix."""
    storage: "Callable[[Source, list[str], str | None], dict[str, Storage]] | None" = field(
        default=None, compare=False, repr=False
    )
    """The storage of the variables named; None if nothing of the format can be virtual."""
    chunks: "Callable[[Source, str, tuple[int, ...], str | None], ChunkTable] | None" = field(
        default=None, compare=False, repr=False
    )
    """The chunks of a variable, in a chunk shape that `storage` allows."""
    reader: "Callable[[Source, str | None, Callable[[], xr.Dataset]], Reader] | None" = field(
        default=None, compare=False, repr=False
    )
    """Opens a faster reader than a dataset; it falls back to the dataset that it is given."""
    is_folder: bool = field(default=False, compare=False, repr=False)  # a store of many files
    needs_path: bool = field(default=False, compare=False, repr=False)  # remote files are copied
    is_step: bool = field(default=False, compare=False, repr=False)
    """Every source is one step of the dimensions along which sources follow one another."""
    unstacked: tuple[str, ...] = field(default=(), compare=False, repr=False)
    """Variables that never get such a dimension."""


@dataclass(frozen=True, slots=True)
class Remote:
    """An object by its whole name, or the folder of that name.

    A pickle holds the credentials; no text does.
    """

    store: RemoteStore  # of the whole bucket or host
    key: str


@dataclass(frozen=True, slots=True)
class Source:
    """A file or a Zarr store: on this machine, in a bucket or on a web server.

    The path is absolute, or a URL, so that it means the same on executors.
    """

    format: SourceFormat
    path: str
    remote: Remote | None = field(default=None, repr=False, compare=False)
    copy: str | None = field(default=None, repr=False, compare=False)  # path of a local copy


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
    storage: "Storage | None" = None  # None if it was not requested

    @property
    def is_dimension_coordinate(self) -> bool:
        return self.dims == (self.name,)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SourceDescription:
    """`mark` changes when the source does; empty if it was not requested."""

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


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredAs:
    """Chunk shape, type and codecs of a Zarr array that can refer to the chunks of the source.

    Variables that are stored alike fit into one array. `is_row` means that the values are
    contiguous, in row-major order and not encoded: there may be any number of chunks along the
    first axis, as long as all are full. The first `stacked` axes are not in the source, which is
    one step of them.
    """

    chunks: tuple[int, ...]
    data_type: str
    codecs: str  # JSON, as in zarr.json
    fill: str | None  # JSON; None if the source has none
    is_row: bool = False
    stacked: int = 0

    def cut(self, length: int) -> "StoredAs":
        """Returns the same with chunks of that length along the first axis in the source."""
        before, after = self.chunks[: self.stacked], self.chunks[self.stacked + 1 :]
        return replace(self, chunks=(*before, length, *after))

    def fits(self, other: "StoredAs") -> bool:
        """Returns True if one array can refer to both, in some chunk shape."""
        if self.is_row and other.is_row and self.chunks and other.chunks:
            other = other.cut(self.chunks[self.stacked])
        return replace(self, codecs="") == replace(other, codecs="") and self.decodes(other)

    def decodes(self, other: "StoredAs") -> bool:
        """Returns True if the codecs of `other` decode these chunks."""
        return _decoder_codecs(self.codecs) == _decoder_codecs(other.codecs)


def _decoder_codecs(codecs: str) -> list[tuple[str, dict[str, Any]]]:
    """Codecs without the compression levels, which do not matter to decoders."""
    return [
        (
            codec["name"],
            {
                key: value
                for key, value in codec.get("configuration", {}).items()
                if key not in {"level", "clevel"}
            },
        )
        for codec in json.loads(codecs)
    ]


type Storage = StoredAs | str
"""Or the reason why an array cannot refer to the chunks of the variable."""


@dataclass(frozen=True, slots=True, eq=False)
class ChunkTable:
    """The chunks of a variable in one source; row i of each column is one of them."""

    index: npt.NDArray[np.int64]  # (n, ndim), of the variable's own grid
    offset: npt.NDArray[np.uint64]  # (n,)
    length: npt.NDArray[np.uint64]  # (n,)
    paths: tuple[str, ...]  # one for all of them, or one for each
    modified_s: int  # time of the last change of any file, rounded up
    padded: Mapping[int, bytes] = field(default_factory=dict)
    """Contents, by row, of chunks that must be copied: partial ones, padded to the chunk shape."""

    def __len__(self) -> int:
        return len(self.index)


def row_chunks(
    shape: tuple[int, ...], chunks: tuple[int, ...], itemsize: int
) -> tuple[npt.NDArray[np.int64], int]:
    """Chunk indexes of contiguous values, and the size of a chunk in bytes.

    Raises ValueError if chunks of that shape are not contiguous, or do not fill the array.
    """
    if shape[1:] != chunks[1:] or (shape and shape[0] % chunks[0]):
        raise ValueError(f"values of shape {shape} in one piece are not chunks of {chunks}")
    count = shape[0] // chunks[0] if shape else 1
    index = np.zeros((count, len(shape)), dtype=np.int64)
    if shape:
        index[:, 0] = np.arange(count)
    return index, int(np.prod(chunks, dtype=np.int64)) * itemsize
