"""`--sel` and `--isel` as Python has them.

lat=60   lat=40..60   lat=..60   lat=10,20      labels; both ends are included
time=0   time=0:24    time=:24   time=0,5,-1    positions; without the end
"""

import json

import typer

type Label = float | int | str


def parse_sel(texts: list[str]) -> dict[str, object]:
    """A label, a list of them, or a slice, by dimension."""
    found = dict[str, object]()
    for text in texts:
        name, value = _named(text, "--sel", "lat=60 or lat=40..60")
        start, dots, stop = value.partition("..")
        if dots:
            found[name] = slice(_label(start), _label(stop))
        elif "," in value:
            found[name] = [_label(each) for each in value.split(",")]
        else:
            found[name] = _label(value)
    return found


def parse_isel(texts: list[str]) -> dict[str, object]:
    """A number, a list of them, or a slice, by dimension."""
    found = dict[str, object]()
    for text in texts:
        name, value = _named(text, "--isel", "time=0 or time=0:24")
        start, colon, stop = value.partition(":")
        if colon:
            found[name] = slice(_end(text, start), _end(text, stop))
        elif "," in value:
            found[name] = [_number(text, each) for each in value.split(",")]
        else:
            found[name] = _number(text, value)
    return found


def _named(text: str, option: str, example: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not (name.strip() and equals and value.strip()):
        raise typer.BadParameter(f"{text!r}: write {example}", param_hint=option)
    return name.strip(), value.strip()


def _label(text: str) -> Label | None:
    """None where an end is left out."""
    if not text.strip():
        return None
    try:
        found = json.loads(text)
    except ValueError:
        return text.strip()
    return found if isinstance(found, int | float) else text.strip()


def _end(text: str, value: str) -> int | None:
    return _number(text, value) if value.strip() else None


def _number(text: str, value: str) -> int:
    try:
        return int(value)
    except ValueError:
        raise typer.BadParameter(
            f"{text!r}: {value!r} is not a position; write time=0, time=0:24 or time=0,5",
            param_hint="--isel",
        ) from None
