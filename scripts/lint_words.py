"""Lists dialect in comments, docstrings, messages and pages: `python -m scripts.lint_words`.

The list is scripts/words.toml. Prints `file:line: problem` and exits with 1 if there are any.
"""

import ast
import io
import re
import sys
import tokenize
import tomllib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[1]
PATHS = (
    "src", "docs", "examples", "demo", "benchmarks", "scripts", ".ci/run", ".github", "Makefile",
    "README.md", "CONTRIBUTING.md", "SECURITY.md",
)  # fmt: skip
SUFFIXES = {".py", ".md", ".sh", ".yml", ".yaml"}
_EXCEPTION = re.compile(r"(?:#|<!--) words: \w")
_INLINE_CODE = re.compile(r"`[^`\n]*`")
_OPENING = re.compile(r"# [^\n]*\s+[\W_]*(\w+)")  # the word after a page's title
_DOCUMENTED = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.Module


@dataclass(frozen=True, slots=True)
class Problem:
    line: int
    text: str


@dataclass(frozen=True, slots=True)
class WordList:
    docstring_starts: frozenset[str]
    page_starts: frozenset[str]
    instead: dict[str, str]
    pattern: re.Pattern[str]


@cache
def load_words() -> WordList:
    listed = tomllib.loads((ROOT / "scripts" / "words.toml").read_text())
    instead: dict[str, str] = listed["instead"]
    any_space = (re.escape(word).replace(r"\ ", r"\s+") for word in instead)
    pattern = re.compile(rf"\b(?:{'|'.join(any_space)})\b", re.IGNORECASE)
    return WordList(
        frozenset(listed["docstring_starts"]), frozenset(listed["page_starts"]), instead, pattern
    )


def lint_python(source: str) -> list[Problem]:
    """Problems of docstrings, comments and strings; names are not looked at."""
    problems = [*_docstring_starts(ast.parse(source))]
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type in {tokenize.COMMENT, tokenize.STRING, tokenize.FSTRING_MIDDLE}:
            problems += _words(token.string, token.start[0])
    return _without_exceptions(problems, source)


def lint_text(source: str) -> list[Problem]:
    """Problems of a page or a script; inline code may quote what it likes."""
    plain = _INLINE_CODE.sub(lambda code: " " * len(code[0]), source)
    return _without_exceptions([*_page_start(plain), *_words(plain, 1)], source)


def _page_start(text: str) -> Iterator[Problem]:
    first = _OPENING.match(text)
    if first and first[1].lower() in load_words().page_starts:
        yield Problem(text.count("\n", 0, first.start(1)) + 1, f"page begins with {first[1]!r}")


def _docstring_starts(tree: ast.Module) -> Iterator[Problem]:
    for node in ast.walk(tree):
        if not isinstance(node, _DOCUMENTED) or not (text := ast.get_docstring(node)):
            continue
        first = re.match(r"[\W_]*(\w+)", text)
        if first and first[1].lower() in load_words().docstring_starts:
            yield Problem(node.body[0].lineno, f"docstring begins with {first[1]!r}")


def _words(text: str, first_line: int) -> Iterator[Problem]:
    listed = load_words()
    for match in listed.pattern.finditer(text):
        word = " ".join(match[0].split()).lower()
        line = first_line + text.count("\n", 0, match.start())
        yield Problem(line, f"{word!r}: write {listed.instead[word]!r} or the like")


def _without_exceptions(problems: Iterable[Problem], source: str) -> list[Problem]:
    lines = source.splitlines()
    kept = [each for each in problems if not _EXCEPTION.search(lines[each.line - 1])]
    return sorted(kept, key=lambda problem: problem.line)


def files_below(paths: Iterable[Path]) -> Iterator[Path]:
    """Yields files as they are, and those with a known suffix in directories, at any depth."""
    for path in paths:
        if path.is_dir():
            yield from sorted(file for file in path.rglob("*") if file.suffix in SUFFIXES)
        else:
            yield path


def main(arguments: list[str]) -> int:
    paths = map(Path, arguments) if arguments else (ROOT / name for name in PATHS)
    count = 0
    for file in files_below(path for path in paths if path.exists()):
        source = file.read_text()
        for problem in lint_python(source) if file.suffix == ".py" else lint_text(source):
            shown = file.relative_to(ROOT) if file.is_relative_to(ROOT) else file
            sys.stdout.write(f"{shown}:{problem.line}: {problem.text}\n")
            count += 1
    if count:
        sys.stderr.write(f"{count} problems; scripts/words.toml has the list\n")
    return 1 if count else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
