"""URL schemes and the object stores that they open: one table, for built-in stores and others.

    register("toy", opener=open_toy)                    in a program, before the URL is used

    [project.entry-points."frazil.object_stores"]       or in the pyproject.toml of a package, for
    toy = "my_package:open_toy"                         every process where it is installed

An opener is called with the URL, and with the parameters that it declares as keyword arguments.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from importlib.metadata import entry_points
from typing import Any

from frazil.errors import InvalidInputError
from frazil.objectstore.protocol import ObjectStore

ENTRY_POINTS = "frazil.object_stores"

type Opener = Callable[..., ObjectStore]
type Parser = Callable[[str], Any]


@dataclass(frozen=True, slots=True)
class StoreScheme:
    """The opener of URLs of one scheme, and its parameters with parsers of their texts."""

    label: str  # in error messages
    open: Opener
    parameters: Mapping[str, Parser] = field(default_factory=dict)


_SCHEMES: dict[str, StoreScheme] = {}


def register(
    *schemes: str, opener: Opener, parameters: Mapping[str, Parser] | None = None, label: str = ""
) -> None:
    """Opens URLs of these schemes with `opener`, also if they had another one before."""
    for scheme in schemes:
        _SCHEMES[scheme.lower()] = StoreScheme(
            label or f"{scheme}://", opener, dict(parameters or {})
        )


def find_scheme(scheme: str) -> StoreScheme | None:
    """The entry of a registered scheme, or of one that an installed package offers."""
    name = scheme.lower()
    if name not in _SCHEMES:
        for entry in entry_points(group=ENTRY_POINTS, name=name):
            register(name, opener=entry.load())
    return _SCHEMES.get(name)


def open_store(url: str, **parameters: object) -> ObjectStore:
    """The store at a URL. Raises InvalidInputError for an unknown scheme or parameter."""
    scheme = url.partition("://")[0] if "://" in url else ""
    kind = find_scheme(scheme)
    if kind is None:
        known = ", ".join(sorted(f"{name}://" for name in _SCHEMES if name)) or "none"
        raise InvalidInputError(f"no object store for {scheme}:// in {url!r}; known are {known}")
    if unknown := parameters.keys() - kind.parameters.keys():
        raise InvalidInputError(f"no parameter {min(unknown)!r} for {kind.label}")
    return kind.open(url, **parameters)
