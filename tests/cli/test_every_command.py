"""What holds for every command: help with examples, JSON, and one clear line when it goes wrong."""

import shlex
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from frazil.cli.commands import COMMANDS, EXAMPLES
from tests.cli.running import EVERY, Answer, frazil, installed

# Print nothing but JSON, or text for a shell.
WITHOUT_JSON = {"dump", "completion", "help"}
WITHOUT_PLACE = {"completion", "help", "spark jar", "spark conf"}
# What goes wrong with them: with the others, that there is no repository.
BAD: dict[str, str] = {
    "init": "init file",
    "import": "import nothing.bundle new",
    "map-blocks": "map-blocks nowhere steps.py:f /a --output /b=f4",
    "write": "write nowhere /a file",
    "dump": "dump nowhere/repo",
    "doctor": "doctor nowhere",
    "completion": "completion tcsh",
    "verify": "verify file",
    "spark jar": "spark jar --spark-home nowhere",
    "spark conf": "spark conf --spark-home nowhere",
    "squash": "squash nowhere main -m all --yes",
    "repo list": "repo list --nonsense",
    "repo add": "repo add no/name weather",
    "repo remove": "repo remove weather",
    "repo default": "repo default weather",
    "help": "help nonsense",
}


def test_every_command_is_listed_with_an_example() -> None:
    assert sorted(EVERY) == sorted(EXAMPLES)


def test_the_list_of_commands_is_not_cut_off() -> None:
    shown = frazil("--help").out
    assert [each.summary for each in COMMANDS.values() if f"  {each.summary}\n" not in shown] == []
    assert "Exit codes:" in shown


@pytest.mark.parametrize("name", EVERY)
def test_help_says_what_it_does_and_shows_an_example(name: str) -> None:
    answer = frazil(*name.split(), "--help")
    assert (answer.code, answer.err) == (0, "")
    lines = answer.out.splitlines()
    assert lines[0].startswith(f"Usage: frazil {name}")
    assert lines[2].strip()
    shown = lines[lines.index("  Examples:") + 1 :]
    assert [line.strip() for line in shown] == list(EXAMPLES[name])
    for option in EVERY[name].params:
        assert option.param_type_name == "argument" or option.help or option.hidden, option.name


@pytest.mark.parametrize("name", EVERY)
def test_examples_are_commands_that_can_be_typed(name: str) -> None:
    for example in EXAMPLES[name]:
        line = example.removeprefix('eval "$(').removesuffix(')"')
        line = line.partition(" > ")[0] if name == "completion" else line
        program, *words = shlex.split(line, comments=True)
        assert program == "frazil"
        assert words[: len(name.split())] == name.split()
        EVERY[name].make_context(name, words[len(name.split()) :])


@pytest.mark.parametrize("name", EVERY)
def test_what_prints_results_prints_json(name: str) -> None:
    options = {option for each in EVERY[name].params for option in each.opts}
    assert ("--json" in options) == (name not in WITHOUT_JSON)


@pytest.mark.parametrize("name", EVERY)
def test_what_names_a_place_takes_the_options_of_storage(name: str) -> None:
    options = {option for each in EVERY[name].params for option in each.opts}
    wanted = {"--storage-option", "--storage-file", "--endpoint-url", "--anonymous", "--region"}
    assert (options & wanted) == (set() if name in WITHOUT_PLACE else wanted)


def bad_line(name: str) -> list[str]:
    line = BAD.get(name, EXAMPLES[name][0].replace("frazil ", "", 1))
    return ["nowhere" if word == "weather" else word for word in shlex.split(line, comments=True)]


def require_one_line(answer: Answer) -> None:
    """Of what is wrong, and perhaps a hint."""
    assert answer.code in {1, 2}, answer
    assert "Traceback" not in answer.err, answer
    first, *hints = answer.err.splitlines()
    assert first.startswith("error: "), answer
    assert all(line.startswith("hint: ") for line in hints), answer


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "file").write_text("not a repository")
    (tmp_path / "steps.py").write_text("def f(a):\n    return a\n")
    (tmp_path / "refs.json").write_text("{}")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("name", sorted({*EVERY} - {"doctor"}))
def test_bad_input_is_one_line_and_no_trace(place: Path, name: str) -> None:
    answer = frazil(*bad_line(name))
    require_one_line(answer)
    assert answer.out == ""
    there = {path.name for path in place.iterdir()} - {"__pycache__"}  # of the user's own module
    assert there == {"file", "refs.json", "steps.py"}


@pytest.mark.usefixtures("place")
@pytest.mark.parametrize("name", sorted({*EVERY} - {"doctor"}))
def test_debug_shows_the_trace(name: str) -> None:
    answer = frazil(*bad_line(name), "--debug")
    assert answer.code in {1, 2}
    assert answer.err.startswith("Traceback")
    assert any(line.startswith("error: ") for line in answer.err.splitlines())


def test_an_option_that_there_is_not_is_told_by_the_installed_command() -> None:
    """In processes of their own, several at a time: most of it is waiting for files."""
    lines = [[*name.split(), "--nonsense"] for name in EVERY]
    with ThreadPoolExecutor(4) as pool:
        answers = list(pool.map(lambda line: installed(*line), lines))
    for answer in answers:
        require_one_line(answer)
        assert (answer.code, answer.out) == (2, "")
