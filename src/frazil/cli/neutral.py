r"""Names and messages come from whoever wrote a repository, and a terminal obeys what it is sent.

A commit message may clear the screen, rename the window, or type an answer for the user. On a
terminal control characters are shown as `\u001b`, as JSON does it, and so are those that turn the
direction of writing around. Colours pass: commands use them. What goes to a file or a pipe is left
alone.
"""

import re
import sys
from types import TracebackType
from typing import Any, Self, TextIO

_CONTROLS = "\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff"
_CONTROL = re.compile(f"[{_CONTROLS}]")
_COLOUR = r"\x1b\[[0-9;]*m"
# What progress bars do with their own line: go back, up, erase, hide the cursor.
_MOVES = r"\r(?!\n)|\r\n|\x1b\[[0-9]*[AK]|\x1b\[2K|\x1b\[\?25[lh]"
_OUT = re.compile(f"({_COLOUR})|[{_CONTROLS}]")
_ERR = re.compile(f"({_COLOUR}|{_MOVES})|[{_CONTROLS}]")


def neutral(text: str) -> str:
    """The text without anything that a terminal would act upon, but for new lines and tabs."""
    return _CONTROL.sub(_escaped, text)


class NeutralStream:
    """A terminal to write to that is sent no more than colours and, if asked for, progress."""

    def __init__(self, inner: TextIO, *, moves: bool = False) -> None:
        self._inner = inner
        self._pattern = _ERR if moves else _OUT

    def write(self, text: str) -> int:
        self._inner.write(self._pattern.sub(_kept, text))
        return len(text)

    def writelines(self, lines: Any) -> None:
        for line in lines:
            self.write(line)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)


class Guarded:
    """Standard output and errors are neutral as long as it lasts, as far as they are terminals."""

    def __enter__(self) -> Self:
        self._before = sys.stdout, sys.stderr
        if sys.stdout.isatty():
            sys.stdout = NeutralStream(sys.stdout)
        if sys.stderr.isatty():
            sys.stderr = NeutralStream(sys.stderr, moves=True)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        sys.stdout, sys.stderr = self._before


def _kept(match: re.Match[str]) -> str:
    return match[1] or _escaped(match)


def _escaped(match: re.Match[str]) -> str:
    return f"\\u{ord(match[0]):04x}"
