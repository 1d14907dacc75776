"""Dataclasses that are compiled at first use, beside those of the standard library."""

import copy
import dataclasses
import inspect
import pickle
import random
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, ClassVar

import pytest

from frazil.dataclass import dataclass

OPTIONS = ("frozen", "eq", "repr", "kw_only", "weakref_slot")
MAKERS: tuple[Callable[..., Any], ...] = (dataclasses.dataclass, dataclass)
CLASSES: dict[str, type] = {}


def _namespace(rng: random.Random, names: list[str], *, is_frozen: bool) -> dict[str, Any]:
    """A class body with some of the things that the classes of frazil have."""
    body: dict[str, Any] = {"__module__": __name__, "__annotations__": {"LIMIT": ClassVar[int]}}
    body["LIMIT"] = 3
    has_default = False
    for name in names:
        body["__annotations__"][name] = rng.choice([int, "int", int | None, list[int]])
        has_default = has_default or rng.random() < 0.4
        if has_default:
            body[name] = rng.choice(
                [7, dataclasses.field(default=8), dataclasses.field(default_factory=list)]
            )
            if rng.random() < 0.2:
                body[name] = dataclasses.field(default=9, init=False, compare=False, repr=False)
    if not is_frozen and rng.random() < 0.3:
        body["__setattr__"] = lambda self, name, value: object.__setattr__(self, name, [value])
    if rng.random() < 0.3:
        body["__post_init__"] = lambda self: object.__setattr__(self, names[-1], 5)
    if rng.random() < 0.2:
        body["__eq__"] = lambda self, other: type(self) is type(other)
    if rng.random() < 0.2:
        body["__hash__"] = lambda _: 1
    if rng.random() < 0.2:
        body["__repr__"] = lambda _: "shown"
    if rng.random() < 0.5:
        body["__doc__"] = "A class."
    return body


def _pair(seed: int) -> list[Any]:
    """The same class, or one and its subclass, made by both."""
    made = []
    for make in MAKERS:
        rng = random.Random(seed)
        options = {name: rng.random() < 0.5 for name in OPTIONS if rng.random() < 0.5}
        is_frozen = options.get("frozen", False)
        cls: Any = type("Thing", (), _namespace(rng, ["a", "b", "c"], is_frozen=is_frozen))
        cls = make(cls, slots=True, **options)
        if rng.random() < 0.4:
            body = _namespace(rng, ["d"], is_frozen=is_frozen)
            body["d"] = 4
            cls = make(type("Thing", (cls,), body), slots=True, **options | {"kw_only": True})
        made.append(cls)
    return made


def _outcome(call: Callable[[], Any]) -> Any:
    try:
        return call()
    except Exception as error:  # noqa: BLE001 -- compared with that of the other
        return type(error), str(error)


def _results(cls: Any, seed: int) -> list[Any]:
    """What can be seen of a class, in an order of chance: any of it may be the first use."""
    rng = random.Random(seed)
    names = [field.name for field in dataclasses.fields(cls)] if rng.random() < 0.5 else []
    kwargs = {name: rng.randrange(3) for name in ("a", "b", "c") if rng.random() < 0.8}
    for _ in range(rng.choice([0, 9])):  # the first are made in another way than many
        _outcome(lambda: cls(**kwargs))
    first = _outcome(lambda: cls(**kwargs))
    second = _outcome(lambda: cls(*kwargs.values()))
    questions: dict[str, Callable[[], Any]] = {
        "repr": lambda: repr(first).partition(" object at")[0],
        "equal": lambda: (first == cls(**kwargs), first == second, first != first),  # noqa: PLR0124 -- what is tested
        "hashable": lambda: cls.__hash__ is None or cls.__hash__ is object.__hash__,
        "hash": lambda: hash(first) == hash(cls(**kwargs)),
        "fields": lambda: [
            (f.name, f.type, f.default, f.default_factory, f.init, f.kw_only, f.compare)
            for f in dataclasses.fields(cls)
        ],
        "replace": lambda: dataclasses.asdict(dataclasses.replace(first, a=11)),
        "values": lambda: [dataclasses.astuple(thing) for thing in (first, second)],
        "set": lambda: setattr(first, "a", 3),
        # the error is another one: that of the standard library fails to call `super`
        "set unknown": lambda: isinstance(_outcome(lambda: setattr(first, "z", 3)), tuple),
        "delete": lambda: delattr(first, "b"),
        "signature": lambda: str(inspect.signature(cls)),
        "match": lambda: cls.__match_args__,
        "slots": lambda: cls.__slots__,
        "params": lambda: repr(cls.__dataclass_params__),
        "doc": lambda: cls.__doc__,
        "copy": lambda: dataclasses.astuple(copy.copy(first)),
        "constant": lambda: cls.LIMIT,
        "unknown": lambda: cls(zz=1),
        "too many": lambda: cls(*range(9)),
    }
    asked = list(questions)
    rng.shuffle(asked)
    answers = {name: _outcome(questions[name]) for name in asked}
    return [names, answers]


@pytest.mark.parametrize("seed", range(150))
def test_a_class_behaves_as_one_of_the_standard_library(seed: int) -> None:
    expected, found = (_results(cls, seed) for cls in _pair(seed))
    assert found == expected


@dataclass(frozen=True, slots=True)
class Point:
    x: int
    y: list[int] = dataclasses.field(default_factory=list)


class Named(Point):
    """A subclass that is no dataclass."""


def test_pickles_are_those_of_the_standard_library() -> None:
    point = Point(1, [2])
    assert pickle.loads(pickle.dumps(point)) == point
    state = point.__reduce_ex__(4)[2]
    assert state == [1, [2]]
    code = "import pickle, sys; print(pickle.loads(sys.stdin.buffer.read()))"
    shown = subprocess.run(
        [sys.executable, "-c", code],
        input=pickle.dumps(point),
        capture_output=True,
        check=True,
        timeout=60,
    )
    assert shown.stdout.decode().strip() == repr(point)


def test_a_subclass_without_the_decorator_may_have_attributes() -> None:
    named = Named(1)
    named.name = "a"  # type: ignore[attr-defined]  # what is tested
    with pytest.raises(dataclasses.FrozenInstanceError, match="x"):
        named.x = 2  # type: ignore[misc]  # what is tested
    assert named == Named(1)


def test_patterns_match() -> None:
    match Point(1, [2]):
        case Point(x, [y]):
            assert (x, y) == (1, 2)
        case _:
            pytest.fail("no match")


def test_threads_may_be_the_first_to_use_a_class_at_once() -> None:
    for _ in range(20):
        body: dict[str, Any] = {"__annotations__": {"a": int, "b": list[int]}}
        body |= {"__module__": __name__, "b": dataclasses.field(default_factory=list)}
        cls: Any = dataclass(frozen=True, slots=True)(type("Thing", (), body))
        with ThreadPoolExecutor(8) as pool:
            things = list(pool.map(lambda i, cls=cls: repr(cls(i // 8)), range(64)))
        assert len(set(things)) == 8


def test_nothing_is_compiled_before_it_is_used() -> None:
    code = (
        "import dataclasses\n"
        "dataclasses._process_class = None\n"
        "from frazil.dataclass import dataclass\n"
        "@dataclass(frozen=True, slots=True)\n"
        "class Thing:\n"
        "    a: int\n"
        "    b: list = dataclasses.field(default_factory=list)\n"
        "assert dataclasses.replace(Thing(1), b=(2,)).a == 1\n"
        "assert Thing(1) == Thing(1) != Thing(2)\n"
        "assert hash(Thing(1, (2,))) == hash(Thing(1, (2,)))\n"
        "assert Thing.__match_args__ == ('a', 'b')\n"
        "assert [each.name for each in dataclasses.fields(Thing)] == ['a', 'b']\n"
        "try:\n"
        "    Thing.__repr__\n"
        "except TypeError:\n"
        "    print('compiled now')\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], check=True, capture_output=True, text=True, timeout=60
    )
    assert done.stdout == "compiled now\n"
