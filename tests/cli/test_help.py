import re
import subprocess
import sys
from importlib.metadata import version
from resource import RUSAGE_CHILDREN, getrusage

import pytest

from frazil.cli.commands import GROUPS
from tests.cli.running import COMMAND, EVERY, fails, frazil, succeeds

COMMANDS = ["init", "ingest", "import-kerchunk", "sql", "log", "ls", "diff", "ops", "dump"]
COMMANDS += ["rechunk", "reduce", "map-blocks", "export", "clone", "import", "migrate"]
COMMANDS += ["branch", "tag", "revert", "cherry-pick", "merge", "squash", "reset"]
COMMANDS += ["rewrite-manifests", "pack", "unpack", "purge"]
COMMANDS += ["verify", "stats", "expire", "gc"]
COMMANDS += ["status", "tree", "head", "cat", "read", "write", "show", "serve", "doctor", "spark"]
COMMANDS += ["completion", "config", "metadata", "flags", "repo", "help"]


def test_help_lists_every_command() -> None:
    listed = re.findall(r"^  ([a-z][\w-]*)  +\S", succeeds("--help").out, re.MULTILINE)
    assert sorted(listed) == sorted(COMMANDS)
    assert sorted(name for names in GROUPS.values() for name in names) == sorted(COMMANDS)


@pytest.mark.parametrize("line", [["-h"], ["help"], ["--help"]])
def test_help_is_found_by_any_name(line: list[str]) -> None:
    assert succeeds(*line).out == succeeds("--help").out
    of_log = ["help", "log"] if line == ["help"] else ["log", *line]
    assert succeeds(*of_log).out == succeeds("log", "--help").out


def test_help_explains_topics() -> None:
    assert "--endpoint-url" in succeeds("help", "storage").out
    assert "130  interrupted" in succeeds("help", "exit-codes").out
    assert "the topics are" in fails("help", "weather", code=2)[0]


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_explains_itself(command: str) -> None:
    answer = succeeds(command, "--help")
    assert answer.out.startswith(f"Usage: frazil {command}")


def test_the_command_is_also_a_module() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "frazil", "--version"], capture_output=True, text=True, check=True
    )
    assert done.stdout == f"frazil {version('frazil')}\n"


def test_help_is_quick() -> None:
    def once() -> float:
        before = getrusage(RUSAGE_CHILDREN)
        subprocess.run([COMMAND, "--help"], capture_output=True, check=True)
        after = getrusage(RUSAGE_CHILDREN)
        return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime

    # Processor time, which others at work on the machine only make a little longer, and not every
    # time; 0.09 s were measured.
    assert any(once() < 0.15 for _ in range(20))


def test_wrong_usage_is_code_2_and_says_what_is_missing() -> None:
    assert fails("head", "repo", code=2) == [
        "error: Missing argument 'PATH'.",
        "hint: `frazil head --help` shows how",
    ]


def test_an_unknown_command_is_code_2() -> None:
    assert frazil("lgo").code == 2


def test_debug_shows_the_trace_wherever_it_stands(tmp_path: object) -> None:
    for arguments in (("--debug", "log", tmp_path), ("log", tmp_path, "--debug")):
        answer = frazil(*arguments)
        assert answer.code == 1
        assert "Traceback" in answer.err
        assert "RepositoryNotFoundError" in answer.err


# A type of Python, or an opening of the old help texts: the reader of help is no programmer.
NOT_NATURAL = re.compile(
    r"<\w+(\[\w+\]| range)?>|\blist\["
    r"|^ .*?  +(Of|Whose|What|Whoever|Whether|Beyond) ",
    re.MULTILINE,
)


@pytest.mark.parametrize("name", EVERY)
def test_help_has_natural_words(name: str) -> None:
    shown = succeeds(*name.split(), "--help").out
    assert [found[0] for found in NOT_NATURAL.finditer(shown)] == []


def test_unnatural_words_are_found() -> None:
    for line in (
        "  --ref <list[str]>  Only",
        "  --port <int range>  x",
        "  -m TEXT  Of the commit.",
    ):
        assert NOT_NATURAL.search(line)
