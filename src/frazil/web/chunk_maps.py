"""Maps of an array's chunks, coloured by kind, by the commit that wrote them, by what changed."""

from dataclasses import dataclass
from functools import partial

import numpy as np
import numpy.typing as npt

from frazil.engine.refs import ancestry as history
from frazil.ids import SnapshotId
from frazil.paths import NodePath
from frazil.web import images as colours
from frazil.web.chunk_changes import CHANGES, chunk_changes
from frazil.web.chunk_tables import UNKNOWN, ChunkWriters, chunk_writers
from frazil.web.commits import HEADLINE
from frazil.web.explored import ChunkColumns, ChunkKind, Explored
from frazil.web.http import Asked
from frazil.web.images import NO_PICTURE, MapView, encode_png, requested_view

LEGEND = 12  # commits that are named beside a map


@dataclass(frozen=True, slots=True, eq=False)
class ChunkMap:
    view: MapView
    pixels: npt.NDArray[np.uint8]  # (height, width, 4)
    legend: list[dict[str, object]]  # colours, and the chunks of each in the window

    def facts(self) -> dict[str, object]:
        view = self.view
        return {
            "grid": view.grid,
            "axes": view.axes,
            "at": view.at,
            "rows": view.rows,
            "columns": view.columns,
            "window": view.window,
            "height": view.height,
            "width": view.width,
            "padding": view.padding,
            "legend": self.legend,
        }

    def png(self) -> bytes:
        if not self.pixels.size:
            return NO_PICTURE
        return encode_png(self.pixels)


def chunk_map(explored: Explored, snapshot: SnapshotId, path: NodePath, asked: Asked) -> ChunkMap:
    """Kept for a while: the picture and its legend are asked for one after the other."""
    by = asked.text("by", "kind")
    start = explored.snapshot(asked.text("from")) if by == "change" else None
    wishes = tuple(asked.values.get(name, "") for name in ("map_axes", "chunk_at", "window"))
    make = partial(_make, explored, snapshot, path, asked, start)
    key = ("map", snapshot, path, by, start, wishes)
    return explored.recall_of(explored.info(), key, make)


def _make(
    explored: Explored,
    snapshot: SnapshotId,
    path: NodePath,
    asked: Asked,
    start: SnapshotId | None,
) -> ChunkMap:
    if start is not None:
        changes = chunk_changes(explored, start, snapshot, path)
        return _by_change(changes.index, changes.change, requested_view(asked, changes.grid))
    chunks = explored.chunks(snapshot, path)
    view = requested_view(asked, chunks.grid)
    if asked.text("by", "kind") == "commit":
        return _by_commit(explored, chunks, chunk_writers(explored, snapshot, path), view)
    return _by_kind(chunks, view)


def _by_kind(chunks: ChunkColumns, view: MapView) -> ChunkMap:
    chosen, cells = view.cells(chunks.refs.index)
    slots = view.slots()
    counts = _count(cells, chunks.kind[chosen], len(ChunkKind), view)
    counts[:, ChunkKind.MISSING] = np.maximum(slots.reshape(-1) - counts.sum(axis=1), 0)
    palette = np.stack([colours.rgba(colours.KIND_COLOURS[kind]) for kind in ChunkKind])
    legend: list[dict[str, object]] = [
        {
            "label": kind.label,
            "colour": colours.hex_of(palette[kind]) if kind else None,
            "chunks": int(counts[:, kind].sum()),
        }
        for kind in ChunkKind
    ]
    return ChunkMap(view, _blend(counts, palette, slots, view), legend)


def _by_change(
    index: npt.NDArray[np.uint32], change: npt.NDArray[np.uint8], view: MapView
) -> ChunkMap:
    chosen, cells = view.cells(index)
    counts = _count(cells, change[chosen], len(CHANGES), view)
    palette = np.stack([colours.rgba(colours.CHANGE_COLOURS[name]) for name in CHANGES])
    legend: list[dict[str, object]] = [
        {"label": name, "colour": colours.hex_of(colour), "chunks": int(counts[:, code].sum())}
        for code, (name, colour) in enumerate(zip(CHANGES, palette, strict=True))
    ]
    # A cell with one change among a thousand chunks is still to be seen.
    seen = counts.sum(axis=1).reshape(view.height, view.width)
    return ChunkMap(view, _blend(counts, palette, seen, view), legend)


def _by_commit(
    explored: Explored, chunks: ChunkColumns, writers: ChunkWriters, view: MapView
) -> ChunkMap:
    """Each cell has the colour of the newest commit that wrote in it."""
    chosen, cells = view.cells(chunks.refs.index)
    writer = writers.writer[chosen]
    count = len(writers.commits)
    newest = np.full(view.height * view.width, count + 1, np.int64)
    np.minimum.at(newest, cells, np.where(writer == UNKNOWN, count, writer))
    palette = np.zeros((count + 2, 4), np.uint8)  # commits, unknown, nothing
    palette[:count] = colours.ordered_colours(count)
    palette[count] = colours.rgba(colours.UNKNOWN_WRITER)
    pixels = palette[newest].reshape(view.height, view.width, 4)
    return ChunkMap(view, pixels, _commit_legend(explored, writers, writer, palette))


def _commit_legend(
    explored: Explored,
    writers: ChunkWriters,
    writer: npt.NDArray[np.int32],
    palette: npt.NDArray[np.uint8],
) -> list[dict[str, object]]:
    """The commits with the most chunks in the window, newest first, and the sum of the others."""
    count = len(writers.commits)
    chunks = np.bincount(np.where(writer == UNKNOWN, count, writer), minlength=count + 1)
    most = np.argsort(-chunks[:count], kind="stable")[:LEGEND]
    named = np.sort(most[chunks[most] > 0])
    info = explored.info()
    legend: list[dict[str, object]] = []
    for number in named.tolist():
        snapshot = writers.commits[number]
        record = history.record_at(info, history.require_row(info, snapshot))
        legend.append(
            {
                "label": record.message[:HEADLINE],
                "id": str(snapshot),
                "at_us": record.flushed_at_us,
                "colour": colours.hex_of(palette[number]),
                "chunks": int(chunks[number]),
            }
        )
    others = np.setdiff1d(np.flatnonzero(chunks[:count]), named)
    if len(others):
        label = f"{len(others)} other commits"
        legend.append({"label": label, "colour": None, "chunks": int(chunks[others].sum())})
    if chunks[count]:
        label = f"written before the last {writers.looked_at} commits, or not recorded"
        colour = colours.hex_of(palette[count])
        legend.append({"label": label, "colour": colour, "chunks": int(chunks[count])})
    return legend


def _count(
    cells: npt.NDArray[np.int64], codes: npt.NDArray[np.uint8], kinds: int, view: MapView
) -> npt.NDArray[np.float64]:
    """Chunks of each code in each cell, (cells, kinds)."""
    size = view.height * view.width
    counts = np.bincount(cells * kinds + codes, minlength=size * kinds)
    return counts.astype(float).reshape(size, kinds)


def _blend(
    counts: npt.NDArray[np.float64],
    palette: npt.NDArray[np.uint8],
    slots: npt.NDArray[np.float64],
    view: MapView,
) -> npt.NDArray[np.uint8]:
    """Colours mixed by how many chunks have them; as opaque as the cell is full."""
    opacity = palette[:, 3].astype(float) / 255
    weight = counts * opacity
    sums = weight.sum(axis=1, keepdims=True)
    mixed = weight @ palette[:, :3].astype(float) / np.maximum(sums, 1)
    share = sums[:, 0] / np.maximum(slots.reshape(-1), 1)
    pixels = np.zeros((len(counts), 4), np.uint8)
    pixels[:, :3] = mixed.round().astype(np.uint8)
    # The least that can be told from nothing.
    pixels[:, 3] = np.where(share > 0, np.clip(share * 255, 60, 255), 0).astype(np.uint8)
    return pixels.reshape(view.height, view.width, 4)
