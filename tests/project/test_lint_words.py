"""scripts/lint_words.py: dialect is found, ordinary English is not."""

import subprocess
import sys
from pathlib import Path

import pytest

from scripts.lint_words import lint_python, lint_text, load_words

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize(
    ("source", "line"),
    [
        ('"""What a session does."""', 1),
        ('"""`Of` each key."""', 1),
        ("def f():\n    '''Whether it is there.'''", 2),
        ('class A:\n    """Returns.\n\n    Read by whoever asks.\n    """', 4),
        ("x = 1  # written anew", 1),
        ('raise ValueError("nobody has it")', 1),
        ('n = 1\ntext = f"{n} chunks at hand"', 2),
        ('text = """one\ntwo leads to three"""', 2),
    ],
)
def test_dialect_in_python_is_found_at_its_line(source: str, line: int) -> None:
    (problem,) = lint_python(source)
    assert problem.line == line


@pytest.mark.parametrize(
    "source",
    [
        '"""Returns what a session does, and where."""',
        '"""Ofset is a word, as is Whatnot."""',
        "nobody = whoever = 1  # names are not looked at",
        "# elsewhere, meanwhile, hence, someone, handled, misleads, partedly",
        'raise ValueError("the caller leads the way; hands are at work")',
        "text = 'nobody'  # words: a user name of the operating system",
        'f"{anew}"',
    ],
)
def test_ordinary_english_and_names_are_not(source: str) -> None:
    assert lint_python(source) == []


def test_pages_are_linted_but_not_their_inline_code() -> None:
    text = "Fine.\n\nIt is written\nanew, by `nobody`, and everybody reads it.\n"
    assert [problem.line for problem in lint_text(text)] == [4, 4]
    assert lint_text("split over at\nhand lines")[0].line == 1
    assert lint_text("quoted: nobody <!-- words: the reference's message -->") == []


def test_a_page_does_not_begin_with_a_relative_clause() -> None:
    (problem,) = lint_text("# Repair\n\n**Who** has a damaged repository.\n")
    assert (problem.line, problem.text) == (3, "page begins with 'Who'")
    assert lint_text("# Whose\nAfter this page you know who wrote it. Of these, two.\n") == []
    assert lint_text("# Repair\nWho has it. <!-- words: quoted -->\n") == []


def test_a_problem_comes_with_the_word_to_use() -> None:
    (problem,) = lint_text("as whoever reads it")
    assert "the reader" in problem.text


def test_the_list_is_short_sorted_enough_to_read_and_has_no_ordinary_word() -> None:
    listed = load_words()
    assert 30 <= len(listed.instead) <= 50
    assert all(listed.instead.values())
    assert not {"elsewhere", "meanwhile", "hence", "someone", "everyone"} & listed.instead.keys()
    for alternatives in listed.instead.values():
        assert lint_text(alternatives) == []


def test_the_command_fails_with_file_and_line(tmp_path: Path) -> None:
    (tmp_path / "page.md").write_text("one\ntwo anew\n")
    (tmp_path / "data.bin").write_bytes(b"\xffanew")
    command = [sys.executable, "-m", "scripts.lint_words"]
    done = subprocess.run(
        [*command, str(tmp_path)], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 1
    assert done.stdout.startswith(f"{tmp_path / 'page.md'}:2: 'anew'")
    clean = subprocess.run([*command, ".editorconfig"], cwd=ROOT, check=False)
    assert clean.returncode == 0
