"""A history as a value: a list of steps that any engine can replay.

Snapshots are named by their position among those made so far, data by a seed, so that a history
prints short and means the same to every engine.
"""

from dataclasses import dataclass

type Json = bool | int | float | str | list[Json] | dict[str, Json] | None
type Shape = tuple[int, ...]
type Region = tuple[tuple[int, int], ...]  # (start, stop) of each dimension

NUMERIC = (
    *("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"),
    *("float16", "float32", "float64", "complex64", "complex128", ">i4"),
)
OTHER = ("str", "U4", "S5", "M8[ns]", "m8[s]")


@dataclass(frozen=True, slots=True, kw_only=True)
class ArraySpec:
    dtype: str
    shape: Shape
    chunks: Shape
    shards: Shape | None
    compressed: bool
    dimension_names: tuple[str | None, ...] | None

    def resized(self, shape: Shape) -> "ArraySpec":
        return ArraySpec(
            dtype=self.dtype,
            shape=shape,
            chunks=self.chunks,
            shards=self.shards,
            compressed=self.compressed,
            dimension_names=self.dimension_names,
        )


@dataclass(frozen=True, slots=True)
class CreateGroup:
    path: str
    attributes: dict[str, Json]


@dataclass(frozen=True, slots=True)
class CreateArray:
    """A new array, or with `overwrite` one in the place of whatever is at `path`."""

    path: str
    spec: ArraySpec
    overwrite: bool = False


@dataclass(frozen=True, slots=True)
class Write:
    """Random values in `region`; `seed` None writes the fill value, which erases whole chunks."""

    path: str
    region: Region
    seed: int | None


@dataclass(frozen=True, slots=True)
class Resize:
    path: str
    shape: Shape


@dataclass(frozen=True, slots=True)
class SetAttributes:
    path: str
    attributes: dict[str, Json]


@dataclass(frozen=True, slots=True)
class Delete:
    path: str


@dataclass(frozen=True, slots=True)
class Clear:
    pass


type Edit = CreateGroup | CreateArray | Write | Resize | SetAttributes | Delete | Clear


@dataclass(frozen=True, slots=True, kw_only=True)
class Commit:
    branch: str
    edits: tuple[Edit, ...]
    message: str
    metadata: dict[str, Json] | None = None
    allow_empty: bool = False


@dataclass(frozen=True, slots=True)
class Abandon:
    """Edits that are discarded before the session ends."""

    branch: str
    edits: tuple[Edit, ...]


@dataclass(frozen=True, slots=True)
class CreateBranch:
    name: str
    snapshot: int  # position among the snapshots made so far; 0 is the initial one


@dataclass(frozen=True, slots=True)
class ResetBranch:
    name: str
    snapshot: int


@dataclass(frozen=True, slots=True)
class DeleteBranch:
    name: str


@dataclass(frozen=True, slots=True)
class CreateTag:
    name: str
    snapshot: int


@dataclass(frozen=True, slots=True)
class DeleteTag:
    name: str


type RefStep = CreateBranch | ResetBranch | DeleteBranch | CreateTag | DeleteTag
type Step = Commit | Abandon | RefStep


@dataclass(frozen=True, slots=True, kw_only=True)
class History:
    """Steps, and the settings of the repository they are made in."""

    steps: tuple[Step, ...]
    inline_threshold_bytes: int | None = None
    updates_per_file: int | None = None
