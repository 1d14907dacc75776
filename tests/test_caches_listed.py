"""Every cache of the package has a row in docs/design/030-caches.md, and every row has its cache.

A cache whose key is less than what its value depends on gives wrong results without a word. So the
page says of each what its value depends on and what its key is; caches are found in the syntax
tree. tests/properties/test_caches.py compares what the main ones give with a fresh process.
"""

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SRC = ROOT / "src" / "frazil"
PAGE = ROOT / "docs" / "design" / "030-caches.md"
ROW = re.compile(r"^\| `([\w/.]+)` `([\w.]+)` \|(.*)\|$", re.MULTILINE)

MEMOS = {"cache", "lru_cache", "cached_property"}
CONTAINERS = {
    "dict", "list", "set", "deque", "Counter", "OrderedDict", "defaultdict",
    "WeakKeyDictionary", "WeakValueDictionary", "WeakSet",
}  # fmt: skip
# Classes of ours whose objects are caches.
CACHES = {
    "WeighedCache", "SingleFlight", "Memory", "Newest", "NewestTail", "SourceClients",
    "SharedDecoded",
}  # fmt: skip
CHANGES = {
    "add", "append", "clear", "discard", "extend", "insert", "move_to_end", "pop", "popitem",
    "remove", "setdefault", "update",
}  # fmt: skip
MAKING = {"__init__", "__post_init__", "__new__", "__setstate__"}

type Function = ast.FunctionDef | ast.AsyncFunctionDef


def last_name(node: ast.AST | None) -> str:
    """`lru_cache` of `functools.lru_cache(maxsize=3)`."""
    match node:
        case ast.Call(func=inner) | ast.Subscript(value=inner):
            return last_name(inner)
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return name
        case _:
            return ""


def written(node: ast.AST) -> str:
    """`name` or `self.name`; of anything else nothing (ast.unparse takes long)."""
    match node:
        case ast.Name(id=name):
            return name
        case ast.Attribute(value=ast.Name(id=owner), attr=name):
            return f"{owner}.{name}"
        case _:
            return ""


def is_container(value: ast.AST | None) -> bool:
    if isinstance(value, ast.Dict | ast.List | ast.Set | ast.DictComp):
        return True
    if isinstance(value, ast.Call) and last_name(value) == "field":
        made = [each.value for each in value.keywords if each.arg == "default_factory"]
        return any(last_name(each) in CONTAINERS or isinstance(each, ast.Lambda) for each in made)
    return isinstance(value, ast.Call) and last_name(value) in CONTAINERS


def functions(tree: ast.AST) -> list[Function]:
    return [each for each in ast.walk(tree) if isinstance(each, Function.__value__)]


def changed(function: ast.AST) -> Iterator[str]:
    """What is changed in place, as it is written: `self._known`."""
    for node in ast.walk(function):
        match node:
            case ast.Subscript(value=value, ctx=ast.Store() | ast.Del()):
                yield written(value)
            case ast.Call(func=ast.Attribute(value=value, attr=name)) if name in CHANGES:
                yield written(value)


def looks_up(function: ast.AST, what: str) -> bool:
    """`key in what`, `what.get(key)`, `what.setdefault(key, ...)`, `if not what`, or the like."""
    for node in ast.walk(function):
        match node:
            case ast.Compare(comparators=[*others]) if what in map(written, others):
                return True
            case ast.Call(func=ast.Attribute(value=value, attr="get" | "setdefault" | "pop")):
                if written(value) == what:
                    return True
            case ast.UnaryOp(op=ast.Not(), operand=value) if written(value) == what:
                return True
    return False


def assigned(function: ast.AST) -> set[str]:
    return {
        written(node)
        for node in ast.walk(function)
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store)
    }


def targets(statement: ast.stmt) -> Iterator[tuple[str, ast.expr | None, ast.expr | None]]:
    """Name, annotation and value of an assignment to a name or to `self.name`."""
    match statement:
        case ast.Assign(targets=[target], value=value):
            yield written(target), None, value
        case ast.AnnAssign(target=target, annotation=annotation, value=value):
            yield written(target), annotation, value


def memos_of_modules(tree: ast.Module) -> Iterator[str]:
    """Mutable globals that functions change, context variables, and memos made by a call."""
    touched = {name for function in functions(tree) for name in changed(function)}
    touched |= {
        name for node in ast.walk(tree) if isinstance(node, ast.Global) for name in node.names
    }
    for statement in tree.body:
        for name, _, value in targets(statement):
            is_memo = isinstance(value, ast.Call) and isinstance(value.func, ast.Call)
            if (
                (is_memo and last_name(value) in MEMOS)
                or last_name(value) in CACHES | {"ContextVar"}
                or name in touched
            ):
                yield name


def memos_of_functions(tree: ast.AST, prefix: str = "") -> Iterator[str]:
    """Decorated ones, those inside of others too, by the class they are in."""
    for node in ast.iter_child_nodes(tree):
        inside = f"{prefix}{node.name}." if isinstance(node, ast.ClassDef) else prefix
        if isinstance(node, Function.__value__):
            if any(last_name(each) in MEMOS for each in node.decorator_list):
                yield prefix + node.name
            if node.name not in MAKING and any(
                written(each.func) == "object.__setattr__"
                for each in ast.walk(node)
                if isinstance(each, ast.Call)
            ):
                yield prefix + node.name
        yield from memos_of_functions(node, inside)


def attributes(made: ast.ClassDef) -> Iterator[tuple[str, ast.expr | None, ast.expr | None]]:
    yield from (each for statement in made.body for each in targets(statement))
    for function in made.body:
        if isinstance(function, ast.FunctionDef) and function.name == "__init__":
            for statement in ast.walk(function):
                if isinstance(statement, ast.Assign | ast.AnnAssign):
                    for name, annotation, value in targets(statement):
                        if name.startswith("self."):
                            yield name.removeprefix("self."), annotation, value


def memos_of_classes(tree: ast.AST) -> Iterator[str]:
    for made in ast.walk(tree):
        if not isinstance(made, ast.ClassDef):
            continue
        if any(last_name(base) == "local" for base in made.bases):
            yield made.name
        others = [each for each in functions(made) if each.name not in MAKING]
        for name, annotation, value in attributes(made):
            what = f"self.{name}"
            if (
                last_name(annotation) in CACHES
                or last_name(value) in CACHES
                or (is_container(value) and "Cache" in made.name)
                or (
                    is_container(value)
                    and any(what in changed(each) and looks_up(each, what) for each in others)
                )
                or (
                    isinstance(value, ast.Constant)
                    and value.value is None
                    and any(what in assigned(each) for each in others)
                )
            ):
                yield f"{made.name}.{name}"


def find_caches(source: str) -> set[str]:
    tree = ast.parse(source)
    found = {*memos_of_modules(tree), *memos_of_functions(tree), *memos_of_classes(tree)}
    return found - {""}  # assignments to something else than a name


@cache
def caches() -> frozenset[tuple[str, str]]:
    return frozenset(
        (path.relative_to(SRC).as_posix(), name)
        for path in sorted(SRC.rglob("*.py"))
        for name in find_caches(path.read_text())
    )


def listed() -> dict[tuple[str, str], str]:
    return {(row[1], row[2]): row[3] for row in ROW.finditer(PAGE.read_text())}


def test_every_cache_is_listed() -> None:
    """Write down what the value depends on; if the key is less, the cache is wrong."""
    assert sorted(caches() - listed().keys()) == []


def test_every_row_has_its_cache() -> None:
    assert sorted(listed().keys() - caches()) == []


def test_every_row_says_all_there_is_to_say() -> None:
    empty = [name for name, cells in listed().items() if not all(map(str.strip, cells.split("|")))]
    assert empty == []
    assert len(listed()) > 80


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ("@lru_cache(maxsize=3)\ndef f(): ...", {"f"}),
        ("class A:\n  @functools.cached_property\n  def f(self): ...", {"A.f"}),
        ("def f():\n  @cache\n  def g(): ...", {"g"}),
        ("f = lru_cache(maxsize=3)(g)", {"f"}),
        ("_known = {}\ndef f(key):\n  _known[key] = 1", {"_known"}),
        ("_known = None\ndef f():\n  global _known\n  _known = 1", {"_known"}),
        ("_x: ContextVar[int] = ContextVar('x')", {"_x"}),
        ("TABLE = {1: 2}\ndef f(key):\n  return TABLE[key]", set[str]()),
        (
            (
                "class A:\n  def __init__(self):\n    self.x: dict = {}\n"
                "  def f(self, key):\n    if key not in self.x:\n      self.x[key] = 1"
            ),
            {"A.x"},
        ),
        (
            (
                "class A:\n  x: dict = field(default_factory=dict)\n"
                "  def f(self, key):\n    return self.x.setdefault(key, 1)"
            ),
            {"A.x"},
        ),
        (
            (
                "class A:\n  def __init__(self):\n    self.x = None\n"
                "  def f(self):\n    self.x = self.x or 1"
            ),
            {"A.x"},
        ),
        (
            (
                "class A:\n  def __init__(self):\n    self.x = []\n"
                "  def f(self, row):\n    self.x.append(row)"
            ),
            set[str](),
        ),
        ("class A:\n  x: WeighedCache[int, str]", {"A.x"}),
        ("class A:\n  def f(self):\n    object.__setattr__(self, 'x', 1)", {"A.f"}),
        ("class A:\n  def __post_init__(self):\n    object.__setattr__(self, 'x', 1)", set[str]()),
        ("class A(threading.local): ...", {"A"}),
    ],
)
def test_caches_are_found(source: str, found: set[str]) -> None:
    assert find_caches(source) == found
