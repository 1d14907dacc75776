"""Conditions of configuration rules, and the matching of their regular expressions.

Rules about manifests name arrays by expression, and both the expression and the names come from
the writer of the repository, who is not trusted. Python's engine backtracks: `(a+)+$` takes hours
for thirty letters. So it is used only where that cannot happen: short texts, and few choices, none
of them repeated. Everything else is matched here, by tracking every state that an automaton could
be in, in linear time. The reference's engine works the same way, and has neither backreferences nor
lookaround; an expression with these never matches, here as there.
"""

import itertools
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import field, fields
from functools import lru_cache
from re import _constants as codes  # type: ignore[attr-defined]  # no public parser since 3.11
from re import _parser as parser  # type: ignore[attr-defined]  # see above
from typing import Any, ClassVar

from frazil.dataclass import dataclass
from frazil.errors import require_type
from frazil.format.records import U32, U64

_MAX_QUICK_TEXT = 64  # characters; with that many choices these are ten million steps at worst
_MAX_CHOICES = 4  # as in the rules that are used by default
_TOO_MANY = _MAX_CHOICES + 1
_MAX_TEXT = 1 << 14
_MAX_PATTERN = 1 << 12
_MAX_STATES = 1 << 12

type Test = Callable[[str], bool]


class _UnknownError(Exception):
    """An expression that has no automaton, or too large a one."""


def regex_matches(regex: str, text: str) -> bool:
    """True if `regex` matches anywhere in `text`; an invalid expression matches nothing."""
    if len(regex) > _MAX_PATTERN or len(text) > _MAX_TEXT:
        return False
    prepared = _compile_regex(regex)
    match prepared:
        case re.Pattern() if len(text) <= _MAX_QUICK_TEXT:
            return prepared.search(text) is not None
        case re.Pattern():
            automaton = _automaton_of(regex)
            return automaton is not None and automaton.finds(text)
        case _Automaton():
            return prepared.finds(text)
        case _:
            return False


@lru_cache(maxsize=512)
def _compile_regex(regex: str) -> "re.Pattern[str] | _Automaton | None":
    try:
        if _choices(parser.parse(regex)) <= _MAX_CHOICES:
            return re.compile(regex)
    except (re.error, OverflowError, RecursionError):
        return None
    return _automaton_of(regex)


@lru_cache(maxsize=512)
def _automaton_of(regex: str) -> "_Automaton | None":
    try:
        return _Builder().automaton(parser.parse(regex))
    except (re.error, OverflowError, RecursionError, _UnknownError):
        return None


def _choices(parsed: Any) -> int:
    """Places where the engine may have to try again; repeated ones are more than are accepted."""
    return sum(itertools.starmap(_choices_of, parsed))


def _choices_of(operation: Any, content: Any) -> int:
    match operation:
        case codes.MAX_REPEAT | codes.MIN_REPEAT:
            least, most, inner = content
            inside = _choices(inner)
            return _TOO_MANY if inside and most > 1 else inside + (least != most)
        case codes.SUBPATTERN:
            return _choices(content[-1])
        case codes.BRANCH:
            alternatives = content[1]
            return 1 + max(map(_choices, alternatives)) if len(alternatives) < 20 else _TOO_MANY
        case codes.LITERAL | codes.NOT_LITERAL | codes.ANY | codes.IN | codes.AT:
            return 0
        case _:
            return _TOO_MANY  # looks around, or back


# ---- an automaton --------------------------------------------------------------------------


@dataclass(slots=True)
class _State:
    """Goes on by a character that `test` takes, or by none, where `at` holds if there is one."""

    test: Test | None = None
    at: Any = None
    following: list[int] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class _Automaton:
    states: list[_State]
    start: int
    end: int
    many_lines: bool

    def finds(self, text: str) -> bool:
        current: set[int] = set()
        for place in range(len(text) + 1):
            current = self._closed({*current, self.start}, text, place)
            if self.end in current:
                return True
            if place < len(text):
                current = set(self._stepped(current, text[place]))
        return False

    def _stepped(self, current: set[int], character: str) -> Iterator[int]:
        for number in current:
            state = self.states[number]
            if state.test is not None and state.test(character):
                yield from state.following

    def _closed(self, begun: set[int], text: str, place: int) -> set[int]:
        """All states that are reached without taking a character."""
        known, left = set(begun), list(begun)
        while left:
            state = self.states[left.pop()]
            if state.test is None and (state.at is None or self._holds(state.at, text, place)):
                new = [number for number in state.following if number not in known]
                known.update(new)
                left += new
        return known

    def _holds(self, at: Any, text: str, place: int) -> bool:
        match at:
            case codes.AT_BEGINNING if self.many_lines:
                return place == 0 or text[place - 1] == "\n"
            case codes.AT_BEGINNING | codes.AT_BEGINNING_STRING:
                return place == 0
            case codes.AT_END if self.many_lines:
                return place == len(text) or text[place] == "\n"
            case codes.AT_END:
                return place == len(text) or (place == len(text) - 1 and text[place] == "\n")
            case codes.AT_END_STRING:
                return place == len(text)
        before = place > 0 and _is_word(text[place - 1])
        after = place < len(text) and _is_word(text[place])
        return (before != after) == bool(at == codes.AT_BOUNDARY)


class _Builder:
    def __init__(self) -> None:
        self.states: list[_State] = []
        self.flags = 0

    def automaton(self, parsed: Any) -> _Automaton:
        self.flags = parsed.state.flags
        start = self.state()
        end = self.sequence(parsed, start)
        many_lines = bool(self.flags & re.MULTILINE)
        return _Automaton(self.states, start, end, many_lines)

    def state(self, test: Test | None = None, at: Any = None) -> int:
        if len(self.states) >= _MAX_STATES:
            raise _UnknownError
        self.states.append(_State(test, at))
        return len(self.states) - 1

    def joined(self, before: int, new: int) -> int:
        self.states[before].following.append(new)
        return new

    def sequence(self, parsed: Any, before: int) -> int:
        """The state after which all of it has matched."""
        for operation, content in parsed:
            before = self.one(operation, content, before)
        return before

    def one(self, operation: Any, content: Any, before: int) -> int:
        match operation:
            case codes.AT:
                return self.joined(self.joined(before, self.state(at=content)), self.state())
            case codes.SUBPATTERN:
                _, added, removed, inner = content
                if added or removed:
                    raise _UnknownError
                return self.sequence(inner, before)
            case codes.BRANCH:
                end = self.state()
                for each in content[1]:
                    self.joined(self.sequence(each, self.joined(before, self.state())), end)
                return end
            case codes.MAX_REPEAT | codes.MIN_REPEAT:
                least, most, inner = content
                return self.repeated(least, most, inner, before)
            case _:
                test = _test_of(operation, content, self.flags)
                return self.joined(self.joined(before, self.state(test)), self.state())

    def repeated(self, least: int, most: Any, inner: Any, before: int) -> int:
        for _ in range(least):
            before = self.sequence(inner, before)
        end = self.state()
        if most == codes.MAXREPEAT:
            again = self.joined(before, self.state())
            self.joined(self.sequence(inner, again), again)
            return self.joined(again, end)
        self.joined(before, end)
        for _ in range(most - least):
            before = self.sequence(inner, self.joined(before, self.state()))
            self.joined(before, end)
        return end


def _is_word(character: str) -> bool:
    return character.isalnum() or character == "_"


_CATEGORIES: dict[Any, Test] = {
    codes.CATEGORY_DIGIT: str.isdecimal,
    codes.CATEGORY_NOT_DIGIT: lambda character: not character.isdecimal(),
    codes.CATEGORY_SPACE: str.isspace,
    codes.CATEGORY_NOT_SPACE: lambda character: not character.isspace(),
    codes.CATEGORY_WORD: _is_word,
    codes.CATEGORY_NOT_WORD: lambda character: not _is_word(character),
}


def _test_of(operation: Any, content: Any, flags: int) -> Test:
    test = _exact_test(operation, content, bool(flags & re.DOTALL))
    if flags & re.IGNORECASE:
        is_not = operation == codes.IN and content[0][0] == codes.NEGATE
        if operation == codes.NOT_LITERAL or is_not:
            return lambda character: all(map(test, {character.lower(), character.upper()}))
        return lambda character: any(map(test, {character, character.lower(), character.upper()}))
    return test


def _exact_test(operation: Any, content: Any, any_line: bool) -> Test:  # noqa: FBT001 - a flag
    match operation:
        case codes.LITERAL:
            return chr(content).__eq__
        case codes.NOT_LITERAL:
            return chr(content).__ne__
        case codes.ANY:
            return (lambda _: True) if any_line else "\n".__ne__
        case codes.RANGE:
            low, high = map(chr, content)
            return lambda character: low <= character <= high
        case codes.CATEGORY:
            return _CATEGORIES[content]
        case codes.IN:
            is_not = content[0][0] == codes.NEGATE
            tests = [_exact_test(kind, each, any_line) for kind, each in content[is_not:]]
            return lambda character: any(test(character) for test in tests) != is_not
    raise _UnknownError


# -------------------------------------------------------------------------------------------------
# Conditions on arrays and axes. Names as in the `icechunk` package.
#
# Alternatives are subclasses that hang on their base, as in `ManifestSplitCondition.AnyArray()`;
# `|` and `&` combine conditions. All are values: hashable, so that they can be keys of a dict.


class ManifestSplitCondition:
    """The arrays that a split rule selects; regular expressions are unanchored."""

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
    """The axes of an array that a split size applies to."""

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
    """The manifests that are loaded when a session is opened."""

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
