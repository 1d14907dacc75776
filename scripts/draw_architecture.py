"""Draws the map of docs/architecture.md: the rooms of the code and its main data flows.

    python scripts/draw_architecture.py          writes docs/images/architecture/*.svg
    python scripts/draw_architecture.py --check  fails if a drawing is out of date

The tables are in docs/images/architecture/map.toml. tests/docs/test_architecture_map.py compares
them with the tree: every package is on the map, and every function of a flow exists.
"""

import sys
import tomllib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from xml.sax.saxutils import escape

FOLDER = Path(__file__).parents[1] / "docs" / "images" / "architecture"
WIDTH = 960
GAP = 12
STYLE = """
  text { font-family: system-ui, -apple-system, "Segoe UI", sans-serif; fill: #1f2328; }
  .name { font-size: 14px; font-weight: 600; }
  .note { font-size: 11.5px; fill: #57606a; }
  .code { font-size: 11px; font-family: ui-monospace, SFMono-Regular, Menlo, monospace; }
  .lane { font-size: 12px; font-weight: 600; fill: #57606a; }
  .box { fill: #f6f8fa; stroke: #8c959f; stroke-width: 1; }
  .step { fill: #ddf4ff; stroke: #0969da; stroke-width: 1; }
  .line { stroke: #8c959f; stroke-width: 1.4; fill: none; }
  .head { fill: #8c959f; }
  .rule { stroke: #d0d7de; stroke-width: 1; stroke-dasharray: 3 4; }
  @media (prefers-color-scheme: dark) {
    text { fill: #e6edf3; }
    .note, .lane { fill: #9198a1; }
    .box { fill: #161b22; stroke: #6e7681; }
    .step { fill: #10243e; stroke: #4493f8; }
    .line { stroke: #6e7681; }
    .head { fill: #6e7681; }
    .rule { stroke: #30363d; }
  }
"""


@dataclass(frozen=True, slots=True)
class Room:
    name: str
    note: str
    rooms: Sequence[str]


@dataclass(frozen=True, slots=True)
class Step:
    room: str
    says: str
    calls: str  # "package.module:function"


def main(arguments: Sequence[str]) -> int:
    stale = []
    for name, text in drawings():
        path = FOLDER / f"{name}.svg"
        if "--check" in arguments:
            if not path.exists() or path.read_text() != text:
                stale.append(path.name)
        else:
            path.write_text(text)
    if stale:
        sys.stderr.write(f"out of date: {', '.join(stale)}; run scripts/draw_architecture.py\n")
    return 1 if stale else 0


def drawings() -> Iterator[tuple[str, str]]:
    with (FOLDER / "map.toml").open("rb") as file:
        table = tomllib.load(file)
    yield (
        "rooms",
        draw_rooms([[Room(**room) for room in layer["room"]] for layer in table["layer"]]),
    )
    for name, flow in table["flow"].items():
        yield f"flow-{name}", draw_flow(flow["title"], [Step(**step) for step in flow["step"]])


def draw_rooms(layers: Sequence[Sequence[Room]]) -> str:
    """Layers from the top, which imports, to the bottom, which is imported."""
    parts: list[str] = []
    y = GAP
    for layer in layers:
        height = max(44 + 16 * len(_wrap_rooms(room, _room_width(layer))) for room in layer)
        for k, room in enumerate(layer):
            width = _room_width(layer)
            parts += _room(room, GAP + k * (width + GAP), y, width, height)
        y += height + GAP
    return _svg("The packages of frazil. Each imports only from the layers below it.", parts, y)


def _room_width(layer: Sequence[Room]) -> int:
    return (WIDTH - GAP * (len(layer) + 1)) // len(layer)


def _wrap_rooms(room: Room, width: int) -> list[str]:
    lines, line = [], ""
    for name in room.rooms:
        longer = f"{line}  {name}".strip()
        if line and len(longer) * 6.7 > width - 20:
            lines.append(line)
            longer = name
        line = longer
    return [*lines, line] if line else lines


def _room(room: Room, x: int, y: int, width: int, height: int) -> Iterator[str]:
    yield f'<rect class="box" x="{x}" y="{y}" width="{width}" height="{height}" rx="6"/>'
    yield f'<text class="name" x="{x + 10}" y="{y + 19}">{escape(room.name)}</text>'
    yield f'<text class="note" x="{x + 10}" y="{y + 35}">{escape(room.note)}</text>'
    for k, line in enumerate(_wrap_rooms(room, width)):
        yield f'<text class="code" x="{x + 10}" y="{y + 52 + 16 * k}">{escape(line)}</text>'


def draw_flow(title: str, steps: Sequence[Step]) -> str:
    """One column per room in the order of first use, one row per step, an arrow to the next."""
    rooms = list(dict.fromkeys(step.room for step in steps))
    lane = (WIDTH - GAP) // len(rooms)
    width, height, top = min(lane - 10, 330), 46, 34
    parts = []
    for k, room in enumerate(rooms):
        middle = GAP + k * lane + lane // 2
        parts.append(f'<text class="lane" x="{middle}" y="20" text-anchor="middle">{room}</text>')
        bottom = top + len(steps) * (height + 18)
        parts.append(f'<path class="rule" d="M{middle} {top} V{bottom}"/>')
    before: tuple[int, int] | None = None
    for k, step in enumerate(steps):
        middle = GAP + rooms.index(step.room) * lane + lane // 2
        y = top + k * (height + 18)
        if before is not None:
            parts += _arrow(before, (middle, y))
        parts += _step(k + 1, step, middle - width // 2, y, width)
        before = (middle, y + height)
    return _svg(title, parts, top + len(steps) * (height + 18))


def _step(number: int, step: Step, x: int, y: int, width: int) -> Iterator[str]:
    yield f'<rect class="step" x="{x}" y="{y}" width="{width}" height="46" rx="6"/>'
    yield f'<text class="note" x="{x + 10}" y="{y + 19}">{number}. {escape(step.says)}</text>'
    module, function = step.calls.split(":")
    short = f"{module.rpartition('.')[2]}.{function}"
    yield f'<text class="code" x="{x + 10}" y="{y + 36}">{escape(short)}</text>'


def _arrow(start: tuple[int, int], end: tuple[int, int]) -> Iterator[str]:
    (x, y), (x2, y2) = start, end
    half = (y + y2) // 2
    yield f'<path class="line" d="M{x} {y} V{half} H{x2} V{y2 - 5}"/>'
    yield f'<path class="head" d="M{x2 - 4} {y2 - 6} L{x2 + 4} {y2 - 6} L{x2} {y2} Z"/>'


def _svg(title: str, parts: Sequence[str], height: int) -> str:
    body = "\n".join(f"  {part}" for part in parts)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}"'
        f' width="{WIDTH}" height="{height}" role="img">\n'
        f"  <title>{escape(title)}</title>\n  <style>{STYLE}</style>\n{body}\n</svg>\n"
    )


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
