"""Arguments of `frazil.spark.write`, checked as the options of the data source are. Pure."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from frazil.errors import InvalidInputError
from frazil.flatbuf.flexbuffers import Json
from frazil.repo.commit_metadata import require_json

_CALLED = {int: "whole numbers", float: "numbers", str: "texts", Mapping: "mappings"}


def mapping_of(name: str, given: object, kind: type | None = None) -> dict[str, Any]:
    """Of columns or dimensions, to values of a kind; of any, for none."""
    if given is None:
        return {}
    called = "values" if kind is None else _CALLED[kind]
    if not isinstance(given, Mapping) or not all(isinstance(key, str) for key in given):
        raise InvalidInputError(f"{name} is {given!r}, expected {called} by name")
    for key, value in given.items():
        if kind is not None and not _is(value, kind):
            raise InvalidInputError(f"{name} has {value!r} for {key!r}, expected {called}")
    return dict(given)


def names_of(name: str, given: object) -> tuple[str, ...] | None:
    """A list of names; a text would be one of letters."""
    if given is None:
        return None
    if isinstance(given, str) or not isinstance(given, Iterable):
        raise InvalidInputError(f"{name} is {given!r}, expected a list of names")
    return tuple(given)


def codecs_of(given: object) -> Any:
    lists: Iterable[Any] = given.values() if isinstance(given, Mapping) else [given]
    for one in lists if given is not None else ():
        is_list = isinstance(one, Sequence) and not isinstance(one, str)
        if not is_list or not all(isinstance(codec, Mapping) for codec in one):
            raise InvalidInputError(
                f"codecs is {given!r}, expected a list of Zarr codecs, or such lists by column"
            )
    return given


def txn_of(given: object) -> tuple[str, str] | None:
    if given is None:
        return None
    match given:
        case (str(application), (str() | int()) as version):
            return application, str(version)
    raise InvalidInputError(f"txn is {given!r}, expected an application and a version")


def metadata_of(given: object) -> dict[str, Json]:
    """Raises TypeError for what is no JSON, as a commit would when all the work is done."""
    return require_json(mapping_of("metadata", given))


def _is(value: object, kind: type) -> bool:
    if kind is int:
        return isinstance(value, int | np.integer) and not isinstance(value, bool)
    if kind is float:
        return isinstance(value, int | float | np.number) and not isinstance(value, bool)
    return isinstance(value, kind)
