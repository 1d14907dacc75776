"""Public surface of a package: its names, with parameters, defaults and values."""

import ast
import builtins
import inspect
from collections.abc import Iterator
from dataclasses import dataclass, fields, is_dataclass
from enum import Enum
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from textwrap import dedent
from types import ModuleType
from typing import Any, Literal

type Kind = Literal["module", "class", "function", "attribute", "value", "type"]

NOTHING = object()
_PREFIX = {"VAR_POSITIONAL": "*", "VAR_KEYWORD": "**"}
STUB = "_icechunk_python.pyi"  # of the compiled part of icechunk


@dataclass(frozen=True, slots=True)
class Parameter:
    name: str
    default: str | None = None  # as Python would print it; None: it must be given
    by_position: bool = True
    prefix: str = ""  # `*` or `**` of one that takes many

    def __str__(self) -> str:
        text = f"{self.prefix}{self.name}"
        return text if self.default is None else f"{text}={self.default}"


@dataclass(frozen=True, slots=True)
class Offer:
    """One name. `parameters` is None where it is not called, or not by users."""

    kind: Kind
    parameters: tuple[Parameter, ...] | None = None
    value: str = ""
    awaited: bool = False
    bases: tuple[str, ...] = ()  # of an exception, all the way up, by name


def format_call(name: str, parameters: tuple[Parameter, ...]) -> str:
    """`open(storage, *, config=None)`."""
    parts: list[str] = []
    for one in parameters:
        if not one.by_position and not one.prefix and not any(p.startswith("*") for p in parts):
            parts.append("*")
        parts.append(str(one))
    return f"{name}({', '.join(parts)})"


# Looking up


def offer_of(owner: Any, name: str, qualified: str) -> Offer | None:
    """Value of `owner.name`, None if there is none."""
    static = inspect.getattr_static(owner, name, NOTHING)
    if isinstance(owner, type) and (
        name in _field_names(owner) or (static is NOTHING and name in _assigned(owner))
    ):
        return Offer("attribute")
    if static is NOTHING:
        found = getattr(owner, name, NOTHING) if isinstance(owner, ModuleType) else NOTHING
        return None if found is NOTHING else _describe(found, found, owner, qualified)
    return _describe(static, getattr(owner, name), owner, qualified)


def _describe(static: Any, found: Any, owner: Any, qualified: str) -> Offer:
    if isinstance(found, ModuleType):
        return Offer("module")
    if isinstance(found, type):
        return Offer("class", _constructor(found, qualified), bases=_bases(found))
    if isinstance(owner, type) and isinstance(found, owner):
        return Offer("value", value=_value(found))
    if inspect.isdatadescriptor(static):
        return Offer("attribute")
    if inspect.isroutine(found):
        bound = inspect.isfunction(static) and isinstance(owner, type)
        parameters = _parameters(found, qualified, skip=int(bound))
        return Offer("function", parameters, awaited=inspect.iscoroutinefunction(found))
    return Offer("type" if isinstance(owner, ModuleType) else "attribute")


def _bases(cls: type) -> tuple[str, ...]:
    if not issubclass(cls, BaseException):
        return ()
    return tuple(sorted(each.__name__ for each in cls.__mro__[1:]))


def _value(member: Any) -> str:
    """Value of an enumeration's member. The reference's are numbers, or have only a name."""
    if isinstance(member, str):
        return repr(str(member))
    try:
        return str(int(member))
    except (TypeError, ValueError):
        return str(getattr(member, "value", member))


def _constructor(cls: type, qualified: str) -> tuple[Parameter, ...] | None:
    """None where objects are made by other means: enumerations, values that come out of calls."""
    if issubclass(cls, Enum) or any(isinstance(each, cls) for each in vars(cls).values()):
        return None
    # A compiled class without its own __new__ cannot be called.
    if _is_compiled(cls) and "__new__" not in vars(cls):
        return None
    return _parameters(cls, qualified)


def _is_compiled(cls: type) -> bool:
    return cls.__module__ == "builtins" and getattr(builtins, cls.__name__, None) is not cls


def _parameters(what: Any, qualified: str, skip: int = 0) -> tuple[Parameter, ...] | None:
    """Parameters without the first `skip`, which are the object itself under any name."""
    try:
        signature = inspect.signature(what)
    except ValueError:  # compiled, and without one
        return _stub_parameters(qualified)
    found = list(signature.parameters.values())[skip:]
    if any(one.default is Ellipsis for one in found):  # compiled, and not printable
        return _stub_parameters(qualified)
    return tuple(
        Parameter(
            one.name,
            None if one.default is one.empty else _format_default(one.default),
            one.kind in (one.POSITIONAL_ONLY, one.POSITIONAL_OR_KEYWORD),
            _PREFIX.get(one.kind.name, ""),
        )
        for one in found
        if one.name not in {"self", "cls"}
    )


def _format_default(default: Any) -> str:
    if isinstance(default, Enum):
        return f"{type(default).__name__}.{default.name}"
    return repr(default)


# The stub file of the reference: only signatures are read


@cache
def _stub() -> dict[str, ast.FunctionDef | ast.AsyncFunctionDef]:
    spec = find_spec("icechunk")
    assert spec is not None  # noqa: S101 -- the script is about that package
    assert spec.origin is not None  # noqa: S101 -- same
    tree = ast.parse(Path(spec.origin).with_name(STUB).read_text())
    return dict(_functions(tree, ""))


def _functions(
    tree: ast.Module | ast.ClassDef, prefix: str
) -> Iterator[tuple[str, ast.FunctionDef | ast.AsyncFunctionDef]]:
    for node in tree.body:
        if isinstance(node, ast.ClassDef):
            yield from _functions(node, f"{prefix}{node.name}.")
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield f"{prefix}{node.name}", node


def _stub_parameters(qualified: str) -> tuple[Parameter, ...] | None:
    places = [qualified, f"{qualified}.__init__", f"{qualified}.__new__"]
    node = next((found for place in places if (found := _stub().get(place))), None)
    if node is None:
        return None
    args = node.args
    positional = [*args.posonlyargs, *args.args]
    first = [None] * (len(positional) - len(args.defaults))
    by_position = zip(positional, [*first, *args.defaults], strict=True)
    by_name = zip(args.kwonlyargs, args.kw_defaults, strict=True)
    return tuple(
        Parameter(
            one.arg,
            None if default is None else ast.unparse(default),
            one not in args.kwonlyargs,
        )
        for one, default in (*by_position, *by_name)
        if one.arg not in {"self", "cls"}
    )


# Enumerating


def exported(module: ModuleType) -> list[str]:
    """Names in `__all__`, and those that the module itself defines under a public name."""
    defined = {
        name
        for name, value in vars(module).items()
        if not name.startswith("_")
        and getattr(value, "__module__", None) == module.__name__
        and (inspect.isfunction(value) or inspect.isclass(value))
    }
    return sorted({*getattr(module, "__all__", ()), *defined})


def members(cls: type) -> list[str]:
    """Public names that a class, or a base class of the same package, defines."""
    package = cls.__module__.partition(".")[0]
    names = {
        name
        for base in cls.__mro__
        if base.__module__.partition(".")[0] == package
        and getattr(builtins, base.__name__, None) is not base
        for name in (*vars(base), *_field_names(base))
        if not name.startswith("_")
    }
    return sorted(names)


@cache
def _assigned(cls: type) -> frozenset[str]:
    """Attributes that `__init__` sets."""
    inits = [vars(base).get("__init__") for base in cls.__mro__]
    trees = [ast.parse(dedent(inspect.getsource(i))) for i in inits if inspect.isfunction(i)]
    return frozenset(
        node.attr
        for tree in trees
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute)
        and isinstance(node.ctx, ast.Store)
        and isinstance(node.value, ast.Name)
        and node.value.id == "self"
    )


def _field_names(cls: type) -> set[str]:
    return {each.name for each in fields(cls)} if is_dataclass(cls) else set()


def find_module(name: str) -> ModuleType | None:
    return import_module(name) if find_spec(name) else None
