"""The installed `frazil` command, run as a user would."""

import json
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

COMMAND = Path(sys.executable).with_name("frazil")


@dataclass(frozen=True, slots=True)
class Answer:
    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)

    @property
    def lines(self) -> list[str]:
        return self.out.splitlines()


def frazil(*arguments: object, timeout_s: float = 60) -> Answer:
    """What the command answers; its standard output is not a terminal."""
    done = subprocess.run(
        [COMMAND, *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=timeout_s,
        check=False,
        stdin=subprocess.DEVNULL,
    )
    return Answer(done.returncode, done.stdout, done.stderr)


def succeeds(*arguments: object, timeout_s: float = 60) -> Answer:
    answer = frazil(*arguments, timeout_s=timeout_s)
    assert (answer.code, answer.err) == (0, ""), answer
    return answer


def fails(*arguments: object, code: int = 1, timeout_s: float = 60) -> list[str]:
    """The lines of an error message: what went wrong, and perhaps a hint. No trace, no output."""
    answer = frazil(*arguments, timeout_s=timeout_s)
    assert (answer.code, answer.out) == (code, ""), answer
    lines = answer.err.splitlines()
    assert lines[0].startswith("error: "), answer
    assert all(line.startswith("hint: ") for line in lines[1:]), answer
    return lines
