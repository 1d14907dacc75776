"""Dataclasses whose methods are compiled at first use.

`dataclasses.dataclass` compiles up to six functions for each class: two thirds of the time that
importing the engine took, and a process uses few of the classes that it imports. The `dataclass`
of this module makes the same class with the same slots. `__init__`, `__eq__` and `__hash__` are
made when they are first used, from templates: a function for three fields is compiled once, and
copied with other names for each class that has three. The first instances of a class are made
without, field by field. Fields are described without compiling anything. The rest is left to the
standard library, when any of it is first used. Type checkers see the standard library's
`dataclass`.
"""

import dataclasses
import sys
from collections.abc import Callable, Mapping
from functools import cached_property, lru_cache, partial
from operator import attrgetter
from types import CodeType, FunctionType
from typing import TYPE_CHECKING, Any, ClassVar

_FEW = 4  # instances that are made before a function is compiled for it
KNOWN_OPTIONS = frozenset({"slots", "frozen", "eq", "repr", "kw_only", "weakref_slot"})
BELONG_TO_ONE_CLASS = frozenset({"__dict__", "__weakref__"})
DEFERRED = "__deferred__"
OMITTED = object()  # the default of a parameter whose field has a default factory


class _Placeholder:
    """An attribute that is not compiled yet; one for each name, shared by all classes."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __get__(self, instance: object, owner: type) -> Any:
        """Has the class that holds the placeholder compiled, which replaces it."""
        for cls in owner.__mro__:
            if vars(cls).get(self.name) is self:
                vars(cls)[DEFERRED].compile(self.name)
                break
        return getattr(owner if instance is None else instance, self.name)


# `inspect` asks for a signature before it looks at `__init__`.
DESCRIPTIONS = ("__dataclass_fields__", "__dataclass_params__", "__match_args__", "__signature__")
METHODS = ("__init__", "__repr__", "__eq__", "__hash__")
PLACEHOLDERS = {name: _Placeholder(name) for name in ("__doc__", *DESCRIPTIONS, *METHODS)}


class _Deferred:
    """A class with slots, and what is needed to compile its methods."""

    def __init__(self, original: type, own: list[str], options: dict[str, Any]) -> None:
        self.own, self.options = own, options
        self.namespace = dict(vars(original))
        for name in BELONG_TO_ONE_CLASS:
            self.namespace.pop(name, None)
        slotted = _with_methods(self.namespace, options)
        for name in own:
            slotted.pop(name, None)
        inherited = {slot for base in original.__mro__[1:-1] for slot in _slots(base)}
        weak = ["__weakref__"] if options.get("weakref_slot") else []
        slotted["__slots__"] = tuple(name for name in (*own, *weak) if name not in inherited)
        slotted[DEFERRED] = self
        self.cls = _class_like(original, slotted)

    def compile(self, name: str) -> None:
        """Replaces a placeholder. Threads that do it at the same time set equal functions."""
        make = _MAKERS.get(name)
        if make is not None:
            setattr(self.cls, name, make(self))
            return
        compiled = dataclasses.dataclass(_class_like(self.cls, self.namespace), **self.options)
        for each in (*PLACEHOLDERS, "__replace__"):
            if self.namespace.get(each) is None and each in vars(compiled):
                setattr(self.cls, each, vars(compiled)[each])
        if "__signature__" in vars(self.cls):
            del self.cls.__signature__

    @cached_property
    def fields(self) -> dict[str, "dataclasses.Field[Any]"]:
        """All fields, those of the bases first."""
        found: dict[str, dataclasses.Field[Any]] = {}
        for base in self.cls.__mro__[-1:0:-1]:
            if DEFERRED in vars(base):
                found |= vars(base)[DEFERRED].own_fields()
            elif "__dataclass_fields__" in vars(base):
                found |= {field.name: field for field in dataclasses.fields(base)}
        return found | self.own_fields()

    def own_fields(self) -> dict[str, "dataclasses.Field[Any]"]:
        found = {}
        annotations = self.cls.__annotations__
        for name in self.own:
            given = self.namespace.get(name, dataclasses.MISSING)
            field: Any = (
                given if isinstance(given, dataclasses.Field) else dataclasses.field(default=given)
            )
            field.name, field.type, field._field_type = name, annotations[name], _FIELD  # noqa: SLF001 -- as the standard library does
            if field.kw_only is dataclasses.MISSING:
                field.kw_only = self.options.get("kw_only", False)
            found[name] = field
        return found


def _make_init(deferred: _Deferred) -> Any:
    """Sets one field after the other: of most classes, a process makes few instances.

    More of them are worth the time that compiling takes, and so are the messages of wrong calls.
    """
    fields = deferred.fields.values()
    given = {field.name for field in fields if field.init}
    required = {field.name for field in fields if field.init and not _has_default(field)}
    positional = [field.name for field in fields if field.init and not field.kw_only]
    put = object.__setattr__ if deferred.options.get("frozen", False) else setattr
    post_init = getattr(deferred.cls, "__post_init__", None)
    instances = 0

    def __init__(self: Any, /, *args: Any, **kwargs: Any) -> None:  # noqa: N807 -- it is one
        nonlocal instances
        instances += 1
        values = dict(zip(positional, args, strict=False)) | kwargs
        is_sound = len(values) == len(args) + len(kwargs) and required <= values.keys() <= given
        if instances > _FEW or not is_sound:
            init = deferred.cls.__init__ = _compile_init(deferred)
            init(self, *args, **kwargs)
            return
        for field in fields:
            if field.name in values:
                put(self, field.name, values[field.name])
            elif field.default_factory is not dataclasses.MISSING:
                put(self, field.name, field.default_factory())
            elif field.default is not dataclasses.MISSING:
                put(self, field.name, field.default)
        if post_init is not None:
            self.__post_init__()

    return __init__


def _compile_init(deferred: _Deferred) -> Any:
    fields = list(deferred.fields.values())
    given = [field for field in fields if field.init]
    positional = [field for field in given if not field.kw_only]
    by_keyword = [field for field in given if field.kw_only]
    names = {field.name: f"f{i}" for i, field in enumerate(fields)}
    scope: dict[str, Any] = {"_omitted": OMITTED}
    is_frozen = deferred.options.get("frozen", False)  # others may check what they are set to
    body = []
    for field in fields:
        value = name = names[field.name]
        if field.default_factory is not dataclasses.MISSING:
            scope[f"_factory_{name}"] = field.default_factory
            value = f"_factory_{name}()"
            value = f"{value} if {name} is _omitted else {name}" if field.init else value
        elif not field.init:
            scope[f"_default_{name}"] = field.default
            value = f"_default_{name}"
            if field.default is dataclasses.MISSING:
                continue
        if is_frozen:  # straight into the slot, in two thirds of the time
            scope[f"_set_{name}"] = getattr(deferred.cls, field.name).__set__
            body.append(f" _set_{name}(self, {value})")
        else:
            body.append(f" self.{name} = {value}")
    if hasattr(deferred.cls, "__post_init__"):
        body.append(" self.__post_init__()")
    parameters = ["self", *(names[field.name] for field in positional)]
    parameters += ["*", *(names[field.name] for field in by_keyword)] if by_keyword else []
    head = f"def __init__({', '.join(parameters)}):"
    init = _from_template("\n".join([head, *(body or [" pass"])]), names, scope, deferred.cls)
    init.__defaults__ = tuple(_default_of(field) for field in positional if _has_default(field))
    init.__kwdefaults__ = {
        field.name: _default_of(field) for field in by_keyword if _has_default(field)
    }
    return init


def _has_default(field: "dataclasses.Field[Any]") -> bool:
    missing = dataclasses.MISSING
    return not (field.default is missing and field.default_factory is missing)


def _default_of(field: "dataclasses.Field[Any]") -> object:
    return OMITTED if field.default is dataclasses.MISSING else field.default


def _make_eq(deferred: _Deferred) -> Any:
    """Compares as the standard library of this Python does: as tuples before 3.13."""
    names = [field.name for field in deferred.fields.values() if field.compare]
    letters = {name: f"f{i}" for i, name in enumerate(names)}
    count = len(names)
    if sys.version_info >= (3, 13):
        same = " and ".join(f"self.f{i} == other.f{i}" for i in range(count)) or "True"
        same = f"self is other or ({same})"
    else:
        same = f"{_tuple_of('self', count)} == {_tuple_of('other', count)}"
    source = (
        "def __eq__(self, other):\n"
        f" if other.__class__ is self.__class__: return {same}\n"
        " return NotImplemented"
    )
    return _from_template(source, letters, {}, deferred.cls)


def _make_hash(deferred: _Deferred) -> Any:
    fields = deferred.fields.values()
    names = [each.name for each in fields if (each.compare if each.hash is None else each.hash)]
    letters = {name: f"f{i}" for i, name in enumerate(names)}
    source = f"def __hash__(self): return hash({_tuple_of('self', len(names))})"
    return _from_template(source, letters, {}, deferred.cls)


def _tuple_of(owner: str, count: int) -> str:
    return f"({''.join(f'{owner}.f{i}, ' for i in range(count))})"


def _make_match_args(deferred: _Deferred) -> tuple[str, ...]:
    fields = deferred.fields.items()
    return tuple(name for name, field in fields if field.init and not field.kw_only)


def _from_template(
    source: str, letters: Mapping[str, str], scope: dict[str, Any], cls: type
) -> Any:
    """Returns the function of a source text, with the names of fields in place of letters."""
    code = _compile(source)
    names = {letter: name for name, letter in letters.items()}
    renamed = code.replace(
        co_varnames=tuple(names.get(each, each) for each in code.co_varnames),
        co_names=tuple(names.get(each, each) for each in code.co_names),
        co_consts=tuple(
            names.get(each, each) if isinstance(each, str) else each for each in code.co_consts
        ),
        co_qualname=f"{cls.__qualname__}.{code.co_name}",
    )
    return FunctionType(renamed, scope | {"__name__": cls.__module__})


@lru_cache(maxsize=256)
def _compile(source: str) -> CodeType:
    module = compile(source, "<frazil.dataclass>", "exec")
    return next(each for each in module.co_consts if isinstance(each, CodeType))


_MAKERS: dict[str, Callable[[_Deferred], Any]] = {
    "__init__": _make_init,
    "__eq__": _make_eq,
    "__hash__": _make_hash,
    "__match_args__": _make_match_args,
    "__dataclass_fields__": attrgetter("fields"),
}
_FIELD = dataclasses.__dict__["_FIELD"]  # marks a field that is neither ClassVar nor InitVar


def _with_methods(namespace: dict[str, Any], options: dict[str, Any]) -> dict[str, Any]:
    """Returns the namespace of a class with what the standard library would add."""
    frozen, eq = options.get("frozen", False), options.get("eq", True)
    full = _methods(frozen=frozen, eq=eq, shown=options.get("repr", True)) | namespace
    if full["__doc__"] is None:
        full["__doc__"] = PLACEHOLDERS["__doc__"]
    # Python itself says of a class with `__eq__` that it is not hashable.
    of_python = "__eq__" in namespace and namespace["__hash__"] is None
    if eq and ("__hash__" not in namespace or of_python):
        full["__hash__"] = PLACEHOLDERS["__hash__"] if frozen else None
    if frozen:
        full["__setattr__"], full["__delattr__"] = _refuse_set, _refuse_delete
    return full


@lru_cache
def _methods(*, frozen: bool, eq: bool, shown: bool) -> dict[str, object]:
    """Returns what is added to a class unless it has it."""
    names = [*DESCRIPTIONS, "__init__", *["__repr__"] * shown, *["__eq__"] * eq]
    methods: dict[str, object] = {name: PLACEHOLDERS[name] for name in names}
    if frozen:
        methods |= {"__getstate__": _get_state, "__setstate__": _set_state}
    return methods


def _class_like(cls: type, namespace: dict[str, Any]) -> Any:
    """Returns a class with the name and the bases of another."""
    made = type(cls)(cls.__name__, cls.__bases__, namespace)
    made.__qualname__ = cls.__qualname__
    return made


def _slots(cls: type) -> tuple[str, ...]:
    slots = vars(cls).get("__slots__", ())
    return (slots,) if isinstance(slots, str) else tuple(slots)


def _is_refused(instance: Any, name: str) -> bool:
    """True for fields, and for anything unless the class is a subclass without the decorator."""
    return DEFERRED in vars(type(instance)) or name in instance.__deferred__.fields


def _refuse_set(self: Any, name: str, value: object) -> None:
    if _is_refused(self, name):
        raise dataclasses.FrozenInstanceError(f"cannot assign to field {name!r}")
    object.__setattr__(self, name, value)


def _refuse_delete(self: Any, name: str) -> None:
    if _is_refused(self, name):
        raise dataclasses.FrozenInstanceError(f"cannot delete field {name!r}")
    object.__delattr__(self, name)


def _get_state(self: Any) -> list[Any]:
    return [getattr(self, name) for name in self.__deferred__.fields]


def _set_state(self: Any, state: list[Any]) -> None:
    for name, value in zip(self.__deferred__.fields, state, strict=True):
        object.__setattr__(self, name, value)


def _find_fields(cls: type) -> list[str] | None:
    """Returns the names of a class's own fields, or None if only the standard library can tell."""
    for base in cls.__mro__[1:-1]:
        if vars(base).get("__dataclass_fields__") and not _slots(base):
            return None  # a slot is needed for inherited fields, too
    own = []
    for name, kind in cls.__annotations__.items():
        if name == "self" or _is_special(kind):
            return None
        if kind is not ClassVar and getattr(kind, "__origin__", None) is not ClassVar:
            own.append(name)
    return own


def _is_special(kind: object) -> bool:
    """True for annotations that are not of fields, and for strings that might be such."""
    if isinstance(kind, str):
        return "ClassVar" in kind or "InitVar" in kind or "KW_ONLY" in kind
    return isinstance(kind, dataclasses.InitVar) or kind is dataclasses.KW_ONLY


def _dataclass(cls: type | None = None, /, **options: Any) -> Any:
    """Makes a dataclass; the options are the standard library's."""
    if cls is None:
        return partial(_dataclass, **options)
    own = _find_fields(cls)
    if own is None or not options.get("slots") or options.keys() - KNOWN_OPTIONS:
        return dataclasses.dataclass(cls, **options)
    return _Deferred(cls, own, options).cls


if TYPE_CHECKING:
    from dataclasses import dataclass as dataclass  # noqa: PLC0414 -- re-exported
else:
    dataclass = _dataclass
