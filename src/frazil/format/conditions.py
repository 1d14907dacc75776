"""Which arrays and axes a configuration rule is about. Names as in the `icechunk` package.

Alternatives are subclasses that hang on their base, as in `ManifestSplitCondition.AnyArray()`;
`|` and `&` combine conditions. All are values: hashable, so that they can be keys of a dict.
"""

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any, ClassVar

from frazil.errors import require_type
from frazil.format.records import U32, U64


class ManifestSplitCondition:
    """Which arrays a rule for splitting manifests is about; regular expressions are unanchored."""

    __slots__ = ()
    calls: ClassVar[dict[type, str]] = {}  # how each alternative is made
    Or: ClassVar[type["SplitOr"]]
    And: ClassVar[type["SplitAnd"]]
    PathMatches: ClassVar[type["SplitPathMatches"]]
    NameMatches: ClassVar[type["SplitNameMatches"]]
    AnyArray: ClassVar[type["SplitAnyArray"]]

    @staticmethod
    def or_conditions(conditions: Sequence["ManifestSplitCondition"]) -> "ManifestSplitCondition":
        return SplitOr(tuple(conditions))

    @staticmethod
    def and_conditions(conditions: Sequence["ManifestSplitCondition"]) -> "ManifestSplitCondition":
        return SplitAnd(tuple(conditions))

    @staticmethod
    def path_matches(regex: str) -> "ManifestSplitCondition":
        return SplitPathMatches(regex)

    @staticmethod
    def name_matches(regex: str) -> "ManifestSplitCondition":
        return SplitNameMatches(regex)

    @staticmethod
    def any_array() -> "ManifestSplitCondition":
        return SplitAnyArray()

    def __repr__(self) -> str:
        return _format_call(self, self.calls)

    def __or__(self, other: "ManifestSplitCondition") -> "ManifestSplitCondition":
        return SplitOr((self, other))

    def __and__(self, other: "ManifestSplitCondition") -> "ManifestSplitCondition":
        return SplitAnd((self, other))


@dataclass(frozen=True, slots=True, repr=False)
class SplitOr(ManifestSplitCondition):
    conditions: tuple[ManifestSplitCondition, ...]


@dataclass(frozen=True, slots=True, repr=False)
class SplitAnd(ManifestSplitCondition):
    conditions: tuple[ManifestSplitCondition, ...]


@dataclass(frozen=True, slots=True, repr=False)
class SplitPathMatches(ManifestSplitCondition):
    regex: str

    def __post_init__(self) -> None:
        require_type(self.regex, str)


@dataclass(frozen=True, slots=True, repr=False)
class SplitNameMatches(ManifestSplitCondition):
    regex: str

    def __post_init__(self) -> None:
        require_type(self.regex, str)


@dataclass(frozen=True, slots=True, repr=False)
class SplitAnyArray(ManifestSplitCondition):
    pass


ManifestSplitCondition.Or = SplitOr
ManifestSplitCondition.And = SplitAnd
ManifestSplitCondition.PathMatches = SplitPathMatches
ManifestSplitCondition.NameMatches = SplitNameMatches
ManifestSplitCondition.AnyArray = SplitAnyArray


class ManifestSplitDimCondition:
    """Which axes of an array a split size is for."""

    __slots__ = ()
    calls: ClassVar[dict[type, str]] = {}  # how each alternative is made
    Axis: ClassVar[type["SplitAxis"]]
    DimensionName: ClassVar[type["SplitDimensionName"]]
    Any: ClassVar[type["SplitAnyDimension"]]

    def __repr__(self) -> str:
        return _format_call(self, self.calls)


@dataclass(frozen=True, slots=True, repr=False)
class SplitAxis(ManifestSplitDimCondition):
    axis: int

    def __post_init__(self) -> None:
        U64["limit"].checked("axis", self.axis)


@dataclass(frozen=True, slots=True, repr=False)
class SplitDimensionName(ManifestSplitDimCondition):
    regex: str

    def __post_init__(self) -> None:
        require_type(self.regex, str)


@dataclass(frozen=True, slots=True, repr=False)
class SplitAnyDimension(ManifestSplitDimCondition):
    """Every axis that no earlier condition took."""


ManifestSplitDimCondition.Axis = SplitAxis
ManifestSplitDimCondition.DimensionName = SplitDimensionName
ManifestSplitDimCondition.Any = SplitAnyDimension


class ManifestPreloadCondition:
    """Which manifests are loaded when a session is opened."""

    __slots__ = ()
    calls: ClassVar[dict[type, str]] = {}  # how each alternative is made
    Or: ClassVar[type["PreloadOr"]]
    And: ClassVar[type["PreloadAnd"]]
    PathMatches: ClassVar[type["PreloadPathMatches"]]
    NameMatches: ClassVar[type["PreloadNameMatches"]]
    NumRefs: ClassVar[type["PreloadNumRefs"]]

    @staticmethod
    def or_conditions(
        conditions: Sequence["ManifestPreloadCondition"],
    ) -> "ManifestPreloadCondition":
        return PreloadOr(tuple(conditions))

    @staticmethod
    def and_conditions(
        conditions: Sequence["ManifestPreloadCondition"],
    ) -> "ManifestPreloadCondition":
        return PreloadAnd(tuple(conditions))

    @staticmethod
    def path_matches(regex: str) -> "ManifestPreloadCondition":
        return PreloadPathMatches(regex)

    @staticmethod
    def name_matches(regex: str) -> "ManifestPreloadCondition":
        return PreloadNameMatches(regex)

    @staticmethod
    def num_refs(from_refs: int | None, to_refs: int | None) -> "ManifestPreloadCondition":
        """Manifests of at least `from_refs` and fewer than `to_refs` references."""
        included = None if from_refs is None else Bound(from_refs, included=True)
        excluded = None if to_refs is None else Bound(to_refs, included=False)
        return PreloadNumRefs(included, excluded)

    @staticmethod
    def true() -> "ManifestPreloadCondition":
        return PreloadTrue()

    @staticmethod
    def false() -> "ManifestPreloadCondition":
        return PreloadFalse()

    def __repr__(self) -> str:
        return _format_call(self, self.calls)

    def __or__(self, other: "ManifestPreloadCondition") -> "ManifestPreloadCondition":
        return PreloadOr((self, other))

    def __and__(self, other: "ManifestPreloadCondition") -> "ManifestPreloadCondition":
        return PreloadAnd((self, other))


@dataclass(frozen=True, slots=True, repr=False)
class PreloadOr(ManifestPreloadCondition):
    conditions: tuple[ManifestPreloadCondition, ...]


@dataclass(frozen=True, slots=True, repr=False)
class PreloadAnd(ManifestPreloadCondition):
    conditions: tuple[ManifestPreloadCondition, ...]


@dataclass(frozen=True, slots=True, repr=False)
class PreloadPathMatches(ManifestPreloadCondition):
    regex: str

    def __post_init__(self) -> None:
        require_type(self.regex, str)


@dataclass(frozen=True, slots=True, repr=False)
class PreloadNameMatches(ManifestPreloadCondition):
    regex: str

    def __post_init__(self) -> None:
        require_type(self.regex, str)


@dataclass(frozen=True, slots=True)
class Bound:
    """One end of a range of numbers; None in its place means that there is no such end."""

    value: int
    included: bool

    def __post_init__(self) -> None:
        U32["limit"].checked("number of references", self.value)


@dataclass(frozen=True, slots=True, repr=False)
class PreloadNumRefs(ManifestPreloadCondition):
    start: Bound | None
    stop: Bound | None


@dataclass(frozen=True, slots=True, repr=False)
class PreloadTrue(ManifestPreloadCondition):
    pass


@dataclass(frozen=True, slots=True, repr=False)
class PreloadFalse(ManifestPreloadCondition):
    pass


ManifestPreloadCondition.Or = PreloadOr
ManifestPreloadCondition.And = PreloadAnd
ManifestPreloadCondition.PathMatches = PreloadPathMatches
ManifestPreloadCondition.NameMatches = PreloadNameMatches
ManifestPreloadCondition.NumRefs = PreloadNumRefs
# `True` and `False` are keywords: reachable by getattr only, as in the reference.
setattr(ManifestPreloadCondition, "True", PreloadTrue)
setattr(ManifestPreloadCondition, "False", PreloadFalse)


ManifestSplitCondition.calls.update(
    {
        SplitOr: "ManifestSplitCondition.or_conditions",
        SplitAnd: "ManifestSplitCondition.and_conditions",
        SplitPathMatches: "ManifestSplitCondition.path_matches",
        SplitNameMatches: "ManifestSplitCondition.name_matches",
        SplitAnyArray: "ManifestSplitCondition.any_array",
    }
)
ManifestSplitDimCondition.calls.update(
    {
        SplitAxis: "ManifestSplitDimCondition.Axis",
        SplitDimensionName: "ManifestSplitDimCondition.DimensionName",
        SplitAnyDimension: "ManifestSplitDimCondition.Any",
    }
)
ManifestPreloadCondition.calls.update(
    {
        PreloadOr: "ManifestPreloadCondition.or_conditions",
        PreloadAnd: "ManifestPreloadCondition.and_conditions",
        PreloadPathMatches: "ManifestPreloadCondition.path_matches",
        PreloadNameMatches: "ManifestPreloadCondition.name_matches",
        PreloadNumRefs: "ManifestPreloadCondition.num_refs",
        PreloadTrue: "ManifestPreloadCondition.true",
        PreloadFalse: "ManifestPreloadCondition.false",
    }
)


def _format_call(condition: Any, calls: dict[type, str]) -> str:
    """The call that makes it; the same for a range whose ends are counted in another way."""
    values = [getattr(condition, each.name) for each in fields(condition)]
    parts = (
        list(value) if isinstance(value, tuple) else getattr(value, "value", value)
        for value in values
    )
    return f"{calls[type(condition)]}({', '.join(map(repr, parts))})"
