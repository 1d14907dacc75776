"""Outcome of a call: an answer or an error, in a form that can be compared."""

import builtins
import re
import warnings
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from enum import Enum
from pathlib import Path
from types import ModuleType
from typing import Any

_ID = re.compile(r"\b[0-9A-HJKMNP-TV-Z]{20}\b")
_SHORT_ID = re.compile(r"(?<=● )[0-9A-HJKMNP-TV-Z]{8}\b")
_NODE_ID = re.compile(r"\b[0-9A-HJKMNP-TV-Z]{13}\b")
_TIME = re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(\.\d+)?(\+00:00| ?UTC|Z)?")
_ADDRESS = re.compile(r" at 0x[0-9a-f]+")
# Where the fixed words of a message end: names, numbers and causes come after these.
_WORDS_END = re.compile(r"[:`'\"(\[{<=|,;.]|\d| -> |TIME|ID")
# Layers of the reference that an error passed through say so before its message.
_LAYERS = re.compile(
    r"^(session error: |repository error |storage error: |error rewriting manifests: )+"
)
_LENGTH = 150
KNOWN_IDS = {"1CECHNKREP0F1RSTCMT0", "AAAAAAAAAAAAAAAAAAA0"}


@dataclass(frozen=True, slots=True)
class Outcome:
    """`error` is the nearest class that the reference has too; "" if the call was answered."""

    error: str
    kind: str | None
    text: str  # the first line of the message, or the answer
    warned: tuple[str, ...] = field(default=())
    is_also: tuple[str, ...] = field(default=())  # Python's own classes that the error is one of

    def __str__(self) -> str:
        """An error by its class, its kind and the fixed words of its message."""
        warned = f", with {', '.join(self.warned)}" if self.warned else ""
        if not self.error:
            return f"`{self.text}`{warned}"
        kind = f" `{self.kind}`" if self.kind else ""
        words = f": {self.phrase}" if self.phrase and self.has_words else ""
        return f"{self.error}{kind}{words}{warned}"

    @property
    def has_words(self) -> bool:
        """Words of Python's own errors, but for ValueError, are those of the binding."""
        return self.kind is not None or self.error == "ValueError"

    @property
    def phrase(self) -> str:
        """The fixed words that a message of the reference begins with."""
        text = _LAYERS.sub("", self.text)
        end = _WORDS_END.search(text)
        return (text[: end.start()] if end else text).strip()


def outcome_of(call: Callable[[], object], m: ModuleType, folder: Path | None = None) -> Outcome:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            answer = call()
        except (KeyboardInterrupt, SystemExit):
            raise
        except BaseException as error:  # noqa: BLE001 -- panics of the reference are no Exception
            lines = str(error).strip().partition("\n")[0]
            outcome = _failed(error, normalised(lines, m, folder))
        else:
            outcome = Outcome("", None, normalised(plain(answer), m, folder))
    warned = dict.fromkeys(each.category.__name__ for each in caught if _is_about(each, m))
    return replace(outcome, warned=tuple(warned))


def _is_about(warning: warnings.WarningMessage, m: ModuleType) -> bool:
    """Not those of zarr about the format, nor of sockets that a client left open."""
    del m
    return not issubclass(warning.category, ResourceWarning) and "zarr" not in str(
        warning.category.__module__
    )


def _failed(error: BaseException, text: str) -> Outcome:
    own = tuple(cls.__name__ for cls in type(error).__mro__ if cls.__module__ == "builtins")
    return Outcome(known_name(error), getattr(error, "kind", None), text, is_also=own)


def known_name(error: BaseException) -> str:
    import icechunk  # noqa: PLC0415 -- after ICECHUNK_NO_LOGS was set

    names = [cls.__name__ for cls in type(error).__mro__]
    known = (icechunk, builtins)
    return next(name for name in names if any(hasattr(module, name) for module in known))


def compare(ours: Outcome, theirs: Outcome) -> str:
    """Difference in words; "" if there is none."""
    if ours.warned != theirs.warned:
        return "warnings"
    if not theirs.error or not ours.error:
        return "" if (ours.error, ours.text) == (theirs.error, theirs.text) else "answer"
    if theirs.kind is None and theirs.error in ours.is_also:  # ours may be one of both trees
        # The words of Python's other errors are about arguments, and those of the binding.
        return "" if theirs.error != "ValueError" or theirs.phrase in ours.text else "message"
    if (ours.error, ours.kind) != (theirs.error, theirs.kind):
        return "error"
    return "" if theirs.phrase.lower() in ours.text.lower() else "message"


# Values as text


def normalised(
    text: str, m: ModuleType, folder: Path | None = None, *, length: int = _LENGTH
) -> str:
    """Without what differs from one run to the next, and cut at a length."""
    if folder is not None:
        text = text.replace(str(folder), "FOLDER")
    text = _ID.sub(lambda one: one[0] if one[0] in KNOWN_IDS else "ID", text)
    text = _SHORT_ID.sub("ID", text)
    text = _ADDRESS.sub("", _TIME.sub("TIME", _NODE_ID.sub("NODE", text)))
    text = text.replace(f"{m.__name__}.", "icechunk.")
    return text if len(text) <= length else f"{text[:length]}..."


def plain(value: object) -> str:
    """An answer as text; objects of the packages by their class."""
    match value:
        case tuple() if not value:  # what a compiled method without an answer gives
            text = "None"
        case Enum():
            text = f"{type(value).__name__} {int(value) if isinstance(value, int) else value.name}"
        case None | bool() | float() | bytes() | int() | str():
            text = repr(value)
        case datetime():
            text = "TIME"
        case Mapping():
            items = sorted((plain(key), plain(each)) for key, each in value.items())
            text = "{" + ", ".join(f"{key}: {each}" for key, each in items) + "}"
        case set() | frozenset():
            text = "{" + ", ".join(sorted(map(plain, value))) + "}"
        case list() | tuple():
            text = "[" + ", ".join(map(plain, value)) + "]"
        case _:
            text = _plain_object(value)
    return text


def _plain_object(value: Any) -> str:
    if isinstance(value, Iterable) and not hasattr(value, "session") and hasattr(value, "__next__"):
        return plain(list(value))
    if hasattr(value, "shape") and hasattr(value, "tolist"):
        return plain(value.tolist())
    try:  # a member of a compiled enumeration
        return f"{type(value).__name__} {int(value)}"
    except (TypeError, ValueError):
        return type(value).__name__
