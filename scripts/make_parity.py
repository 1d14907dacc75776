"""Writes docs/parity.md: what of icechunk is in frazil, and behaves alike, from both as installed.

What is missing or differs is explained in parity_notes.toml; without an explanation this fails.
"""

import os
import sys
from collections.abc import Sequence
from pathlib import Path

os.environ.setdefault("ICECHUNK_NO_LOGS", "1")  # read when the reference is imported

import icechunk

import frazil
from frazil.compatibility import SUBMODULES
from scripts.parity import behaviour
from scripts.parity.names import (
    Difference,
    Note,
    Section,
    fetch_notes,
    find_note,
    only_ours,
    sections,
)

PAGE = Path(__file__).parents[1] / "docs" / "parity.md"
# `vendor` is a copy of parts of xarray, `testing` simulates slow storage in the reference's tests.
LEFT_OUT = {"testing", "vendor"}
INTRODUCTION = """\
# Parity with icechunk {version}

Every public name of the `icechunk` package, with parameters and defaults, and its state in frazil. Written by `make parity` from both packages as installed; do not edit.
*same*: there, with the same parameters in the same order and the same defaults. Types are not compared. Behaviour is compared further down, by tours that both packages make, and by the tests in tests/compat; deliberate differences are in [differences.md](differences.md).

"""  # noqa: E501 -- lines of a page


def current_sections() -> list[Section]:
    return sections(frazil, icechunk, sorted(SUBMODULES))


def differences(found: Sequence[Section]) -> list[Difference]:
    return [each for section in found for row in section.rows for each in row.differences]


def unexplained(found: Sequence[Difference], notes: Sequence[Note]) -> list[Difference]:
    return [each for each in found if find_note(each.name, notes) is None]


def unused(found: Sequence[Difference], notes: Sequence[Note]) -> list[str]:
    """Patterns of notes about nothing that is missing or differs: what they explain was done."""
    names = [each.name for each in found]
    return [
        pattern
        for note in notes
        for pattern in note.names
        if not any(Note((pattern,), "").is_about(name) for name in names)
    ]


def format_page(
    found: Sequence[Section],
    chapters: Sequence[behaviour.Chapter],
    extra: Sequence[str],
) -> str:
    notes, reasons = fetch_notes(), fetch_notes(about="behaviour")
    parts = [INTRODUCTION.format(version=icechunk.__version__), _summary(found)]
    for section in found:
        parts += [f"\n## {section.title}\n", "| icechunk | frazil |\n|---|---|\n"]
        parts += [
            f"| `{_cell(row.shown)}` | {_cell(_state(row.differences, notes))} |\n"
            for row in section.rows
        ]
    parts += ["\n## Only in frazil\n", ", ".join(f"`{name}`" for name in extra), "\n"]
    parts += [behaviour.format_chapter(chapter, reasons) for chapter in chapters]
    return "".join(parts)


def _summary(found: Sequence[Section]) -> str:
    rows = [row for section in found for row in section.rows]
    missing = sum(any(each.text == "missing" for each in row.differences) for row in rows)
    same = sum(not row.differences for row in rows)
    return (
        "| names | same | differ | missing |\n|---|---|---|---|\n"
        f"| {len(rows)} | {same} | {len(rows) - same - missing} | {missing} |\n"
    )


def _state(found: Sequence[Difference], notes: Sequence[Note]) -> str:
    if not found:
        return "same"
    whys = {find_note(each.name, notes): None for each in found}
    why = "; ".join(note.why if note else "not explained" for note in whys)
    if [each.text for each in found] == ["missing"]:
        return f"**missing**: {why}"
    return f"**differs**: {', '.join(each.text for each in found)} ({why})"


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def problems(found: Sequence[Section], chapters: Sequence[behaviour.Chapter]) -> list[str]:
    """Differences that no note explains, and notes that explain none."""
    pairs = (
        (differences(found), fetch_notes()),
        (behaviour.differences(chapters), fetch_notes(about="behaviour")),
    )
    return [
        text
        for differing, notes in pairs
        for text in (
            *(f"not explained: {each.name}: {each.text}" for each in unexplained(differing, notes)),
            *(f"explains nothing: {pattern}" for pattern in unused(differing, notes)),
        )
    ]


def main() -> None:
    found, chapters = current_sections(), behaviour.chapters()
    PAGE.write_text(format_page(found, chapters, only_ours(frazil, icechunk)))
    if wrong := problems(found, chapters):
        sys.exit("\n".join(wrong))


if __name__ == "__main__":
    main()
