"""The tours as rows of a page, and what of them needs an explanation."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from scripts.parity.displays import all_values, show_all
from scripts.parity.names import Difference, Note, find_note
from scripts.parity.tours import make_tour, wrong

_LONGEST = 160


@dataclass(frozen=True, slots=True)
class Behaviour:
    """One thing that both packages were made to do. `difference` is "" if it came to the same."""

    name: str
    there: str
    difference: str = ""


@dataclass(frozen=True, slots=True)
class Chapter:
    title: str
    text: str
    rows: tuple[Behaviour, ...]


def chapters() -> list[Chapter]:
    return [wrong_calls(), appearances()]


def wrong_calls() -> Chapter:
    rows = [
        Behaviour(
            stop.call,
            str(stop.theirs),
            f"{stop.difference}: {stop.ours}" if stop.difference else "",
        )
        for stop in make_tour(wrong())
    ]
    text = (
        "Each call is made by both packages in a copy of one small repository. Compared are the"
        " class of the error, its kind, and that the message has the fixed words with which the"
        " reference's begins; the answer, if there is no error; and warnings."
    )
    return Chapter("Wrong calls", text, tuple(rows))


def appearances() -> Chapter:
    rows = []
    for pair in show_all(all_values()):
        found = dict(pair.differences())
        rows += [
            Behaviour(f"{form} of {pair.value}", "", found.get(form, ""))
            for form in (*pair.theirs.forms, "pickle")
        ]
    text = (
        "Values of every type, after a short history. Layouts are each package's own: compared are"
        " the fields that are shown, texts without fields as they are, whether there is HTML for"
        " notebooks, and that a pickled copy is equal if the reference's is."
    )
    return Chapter("What values look like, and pickling", text, tuple(rows))


def differences(found: Iterable[Chapter]) -> list[Difference]:
    return [
        Difference(row.name, row.difference)
        for chapter in found
        for row in chapter.rows
        if row.difference
    ]


def format_chapter(chapter: Chapter, notes: Sequence[Note]) -> str:
    differ = [row for row in chapter.rows if row.difference]
    same = [row for row in chapter.rows if not row.difference]
    parts = [
        f"\n## {chapter.title}\n{chapter.text}\n\n",
        f"{len(chapter.rows)} compared, {len(same)} the same, {len(differ)} differ on purpose.\n\n",
        "| call or value | icechunk | frazil | why |\n|---|---|---|---|\n",
    ]
    for row in differ:
        note = find_note(row.name, notes)
        cells = (f"`{row.name}`", row.there, row.difference, note.why if note else "not explained")
        parts.append(f"| {' | '.join(_cell(each) for each in cells)} |\n")
    if any(row.there for row in same):
        parts.append("\n| the same in both | comes to |\n|---|---|\n")
        parts += [f"| `{_cell(row.name)}` | {_cell(row.there)} |\n" for row in same]
    else:
        parts.append("\nThe same: " + ", ".join(f"`{_cell(row.name)}`" for row in same) + ".\n")
    return "".join(parts)


def _cell(text: str) -> str:
    flat = " ".join(text.split()).replace("|", "\\|")
    return flat if len(flat) <= _LONGEST else f"{flat[:_LONGEST]}..."
