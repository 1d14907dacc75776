"""Random histories of a small table, and what pandas says that happened between two versions."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import zarr

import frazil
from frazil.engine.session.session import Session
from frazil.paths import NodePath

type Key = tuple[Any, ...]
type Rows = dict[Key, tuple[Any, ...]]
type Change = tuple[Key, tuple[Any, ...], str]

NAN = float("nan")


def create(group: Any, name: str, shape: Sequence[int], chunks: Sequence[int], **more: Any) -> Any:
    return group.create_array(
        name, shape=shape, chunks=chunks, compressors=None, overwrite=True, **more
    )


def make_repository(path: Path) -> frazil.Repository:
    """Variables a (NULL where nothing is), b (on another grid) and n (0 where nothing is)."""
    repository = frazil.Repository.create(frazil.local_filesystem_storage(path))
    with repository.transaction("main", message="arrays") as store:
        group = zarr.group(store)
        for name, size in (("y", 5), ("x", 4)):
            array = create(group, name, [size], [3], dtype="i8", dimension_names=[name])
            array[:] = np.arange(size) * 10
        dims = {"dimension_names": ["y", "x"]}
        create(group, "a", [5, 4], [2, 2], dtype="f8", fill_value=NAN, **dims)
        create(group, "b", [5, 4], [3, 4], dtype="f4", fill_value=NAN, **dims)
    return repository


def mutate(session: frazil.Session, random: np.random.Generator) -> None:
    group: Any = zarr.open_group(session.store)
    names = [name for name in ("a", "b", "n") if name in group]
    name = names[random.integers(len(names))]
    if random.random() < 0.5:
        change_cells(session, group[name], random)
    else:
        change_table(group, names, name, random)


def change_cells(session: frazil.Session, array: Any, random: np.random.Generator) -> None:
    y, x = int(random.integers(array.shape[0])), int(random.integers(4))
    match random.integers(4):
        case 0:
            array[y, x] = random.integers(3)
        case 1:
            array[y : y + 2, x:] = random.integers(4)
        case 2:
            array[y, x:] = 0 if array.basename == "n" else NAN
        case _:
            engine: Session = session.engine
            engine.delete_chunk(NodePath(f"/{array.basename}"), (0, 0))


def change_table(group: Any, names: list[str], name: str, random: np.random.Generator) -> None:
    size = group["a"].shape[0]
    match random.integers(6):
        case 0:
            resize(group, names, size + 2)
            group["y"][size:] = group["y"][:size].max() + 10 * np.arange(1, 3)
            group[name][size] = random.integers(1, 9)
        case 1:
            resize(group, names, max(1, size + int(random.integers(-2, 3))))
            fresh = np.arange(10_000, 10_000 + max(0, group["a"].shape[0] - size))
            group["y"][size:] = fresh + int(random.integers(1000)) * 10
        case 2:
            group["y"][int(random.integers(size))] = 100_000 + random.integers(1000)
        case 3:  # values of a coordinate change places, with their rows or without
            order = random.permutation(size)
            group["y"][:] = group["y"][:][order]
            for each in names if random.random() < 0.5 else ():
                group[each][:] = group[each][:][order]
        case 4 if "n" in names:
            group["n"].attrs["scale_factor"] = float(random.integers(1, 3))
        case _:
            dims = {"dimension_names": ["y", "x"]}
            create(group, "n", [size, 4], [2, 4], dtype="f8", fill_value=0.0, **dims)


def resize(group: Any, names: Sequence[str], size: int) -> None:
    for name in names:
        group[name].resize((size, 4))
    group["y"].resize((size,))


def make_history(path: Path, seed: int, commits: int) -> list[str]:
    """The snapshots, oldest first, from the one with the empty arrays on."""
    random = np.random.default_rng(seed)
    repository = make_repository(path)
    found = [repository.lookup_branch("main")]
    while len(found) <= commits:
        session = repository.writable_session("main")
        for _ in range(int(random.integers(1, 4))):
            mutate(session, random)
        if session.has_uncommitted_changes:
            found.append(session.commit("changed"))
    return found


def rows_at(path: Path, snapshot: str, variables: Sequence[str]) -> Rows:
    """Rows of which not every variable is missing, as xarray would decode them."""
    repository = frazil.Repository.open(frazil.local_filesystem_storage(path))
    group: Any = zarr.open_group(repository.readonly_session(snapshot_id=snapshot).store, mode="r")
    ys, xs = group["y"][:].tolist(), group["x"][:].tolist()
    columns = []
    for name in variables:
        if name not in group:
            columns.append(np.full((len(ys), len(xs)), NAN))
            continue
        scale = group[name].attrs.get("scale_factor", 1.0)
        columns.append(np.asarray(group[name][:], dtype="f8") * scale)
    found: Rows = {}
    for i, y in enumerate(ys):
        for k, x in enumerate(xs):
            values = tuple(None if np.isnan(c[i, k]) else float(c[i, k]) for c in columns)
            if any(value is not None for value in values):
                assert (y, x) not in found
                found[y, x] = values
    return found


def difference(old: Rows, new: Rows) -> list[Change]:
    found: list[Change] = []
    for key in old.keys() | new.keys():
        match old.get(key), new.get(key):
            case before, after if before == after:
                continue
            case None, tuple(after):
                found.append((key, after, "insert"))
            case tuple(before), None:
                found.append((key, before, "delete"))
            case tuple(before), tuple(after):
                found.append((key, before, "update_preimage"))
                found.append((key, after, "update_postimage"))
    return sorted(found, key=repr)


def changes_of(rows: Sequence[dict[str, Any]], variables: Sequence[str]) -> list[Change]:
    found = [
        ((row["y"], row["x"]), tuple(row[name] for name in variables), row["_change_type"])
        for row in rows
    ]
    return sorted(found, key=repr)
