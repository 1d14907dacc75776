"""Lengths by dimension, as typed."""

import typer


def parse_lengths(texts: list[str], option: str) -> dict[str, int]:
    """`time=24,lat=90`, perhaps over several options; -1 is the whole dimension."""
    lengths = dict[str, int]()
    for part in (part for text in texts for part in text.split(",") if part):
        name, _, length = part.partition("=")
        try:
            lengths[name.strip()] = int(length)
        except ValueError:
            raise typer.BadParameter(
                f"{part!r} is not NAME=LENGTH, as in time=24,lat=90", param_hint=option
            ) from None
    return lengths
