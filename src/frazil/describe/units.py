"""Amounts as text. Imports nothing: the command line needs it at once."""

_UNITS = ("B", "KiB", "MiB", "GiB", "TiB")


def format_size(count: int) -> str:
    """`512 B`, `1.5 MiB`."""
    value, unit = float(count), "B"
    for unit in _UNITS:
        if value < 1024 or unit == _UNITS[-1]:
            break
        value /= 1024
    return f"{count} B" if unit == "B" else f"{value:.1f} {unit}"
