"""Cost against size: references, history, arrays, writers on one branch, beside the reference.

    python -m benchmarks.scale [KIND ...] [--quick] [--engines NAME ...] [--page FILE]

Every point is measured in a process of its own, in processor time and added memory; a point that
takes more than `LIMIT_BYTES` of memory or `LIMIT_S` of time is shown as such, and larger ones of
that engine are left out. `--page docs/scale.md` rewrites the tables between its marks, and draws
the curves beside it, in images/scale.
"""

import argparse
import json
import re
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import asdict
from datetime import UTC, datetime, timedelta
from importlib import import_module
from itertools import islice, zip_longest
from pathlib import Path
from typing import Any

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
import zarr
from zarr.core.buffer import default_buffer_prototype
from zarr.core.sync import sync

from benchmarks import hot_branch
from benchmarks.made_up_history import build_history
from benchmarks.storages import storage
from benchmarks.timing import Stopwatch
from frazil.virtual import CodedLocations

ROOT = Path(__file__).parents[1]
LIMIT_BYTES, LIMIT_S = 8 << 30, 3600
COLUMNS = 1000
GROUP = 100  # arrays in a group
SHOWN_MB = 50
ARCHIVE = "s3://climate-archive/"
COLOURS = {"frazil": "tab:blue", "icechunk": "tab:orange"}

type Point = dict[str, float]


def measure_references(engine: Any, root: Path, count: int) -> Point:
    """Virtual references: set and committed, one read, a row appended, compared, verified."""
    watch, rows = Stopwatch(), count // COLUMNS
    config = engine.RepositoryConfig.default()
    source = engine.VirtualChunkContainer(ARCHIVE, engine.s3_store(region="us-east-1"))
    config.set_virtual_chunk_container(source)
    session = engine.Repository.create(storage(engine, root), config).writable_session("main")
    zarr.create_array(session.store, name="v", shape=(rows, COLUMNS), chunks=(1, 1), dtype="f4")
    with watch("set + commit"):
        _set_refs(engine, session, 0, rows)
        session.commit("references")
    size = sum(path.stat().st_size for path in root.rglob("*") if path.is_file())
    with watch("open, look one up"):
        found = engine.Repository.open(storage(engine, root)).readonly_session("main")
        kind = found.chunk_type("/v", (rows // 2, COLUMNS // 2))
    assert kind == engine.ChunkType.virtual
    repo = engine.Repository.open(storage(engine, root))
    with watch("append 1,000"):
        session = repo.writable_session("main")
        zarr.open_array(session.store, path="v").resize((rows + 1, COLUMNS))
        _set_refs(engine, session, rows, 1)
        session.commit("a row")
    history = [each.id for each in repo.ancestry(branch="main")]
    with watch("diff"):
        repo.diff(from_snapshot_id=history[-1], to_snapshot_id=history[0])
    _verify(engine, root, watch)
    return _point(watch) | {"bytes on disk per reference": size / count}


def _set_refs(engine: Any, session: Any, first: int, rows: int) -> None:
    count = rows * COLUMNS
    files = [f"{ARCHIVE}era5/part-{first + i:07}.nc" for i in range(rows)]
    codes = np.repeat(np.arange(rows, dtype=np.int64), COLUMNS)
    names: Any = CodedLocations(codes, files)
    if engine.__name__ != "frazil":
        names = [files[code] for code in codes.tolist()]
    session.store.set_virtual_refs_arr(
        "v",
        (rows, COLUMNS),
        names,
        np.tile(np.arange(COLUMNS, dtype=np.uint64) * 4_000_000, rows),
        np.full(count, 4_000_000, dtype=np.uint64),
        validate_containers=False,
        arr_offset=(first, 0),
    )


def measure_history(engine: Any, root: Path, commits: int) -> Point:
    """A repository of so many made-up commits: the same bytes for both engines."""
    build_history(root, commits, chunks=100)
    return _point(_use_history(engine, root, commits))


def measure_commits(engine: Any, root: Path, commits: int) -> Point:
    """So many real ones, of which old backups are collected after every thousand."""
    watch, repo = Stopwatch(), _create_small(engine, root)
    with watch("all commits"):
        for number in range(commits):
            _commit_chunk(repo, number % 100)
            if number % 1000 == 999:
                _collect_backups(repo)
    copies = _copied_bytes(root)[0] / 1e6
    return _point(watch) | {"MB of backups": copies} | _point(_use_history(engine, root, commits))


def _use_history(engine: Any, root: Path, commits: int) -> Stopwatch:
    watch = Stopwatch()
    engine.Repository.open(storage(engine, root)).readonly_session("main")
    with watch("open"):
        repo = engine.Repository.open(storage(engine, root))
        tip = repo.readonly_session("main").snapshot_id
    with watch("10 of the ops log"):
        assert len(list(islice(repo.ops_log(), 10))) == 10
    with watch("whole ops log"):
        assert sum(1 for _ in repo.ops_log()) >= commits
    _commit_chunk(repo, 0)
    with watch("commit"):
        _commit_chunk(repo, 1)
    with watch("tag"):
        repo.create_tag("a", tip)
    with watch("10 of the ancestry"):
        assert len(list(islice(repo.ancestry(branch="main"), 10))) == 10
    with watch("whole ancestry"):
        assert sum(1 for _ in repo.ancestry(branch="main")) >= commits
    newest = [each.written_at for each in islice(repo.ancestry(branch="main"), 4)]
    with watch("as_of"):
        repo.readonly_session("main", as_of=newest[1])
    with watch("expire all but three"):
        repo.expire_snapshots(newest[2])
    with watch("gc, dry run"):
        repo.garbage_collect(datetime.now(UTC), dry_run=True)
    return watch


def measure_backups(engine: Any, root: Path, commits: int) -> Point:
    """So many real commits: how much of the repository is copies of `repo`."""
    repo = _create_small(engine, root)
    for i in range(commits):
        _commit_chunk(repo, i % 100)
    copies, rest = _copied_bytes(root)
    found = {"MB below overwritten/": copies / 1e6, "share": copies / (copies + rest)}
    if engine.__name__ == "frazil":
        _collect_backups(repo)
        found["MB after a collection"] = _copied_bytes(root)[0] / 1e6
    return found


def _create_small(engine: Any, root: Path) -> Any:
    repo = engine.Repository.create(storage(engine, root))
    session = repo.writable_session("main")
    zarr.create_array(session.store, name="a", shape=(100,), chunks=(1,), dtype="i4")
    session.commit("array")
    return repo


def _collect_backups(repo: Any) -> None:
    now = datetime.now(UTC)
    repo.garbage_collect(now, safety_age=timedelta(0), backups_older_than=now)


def _copied_bytes(root: Path) -> tuple[int, int]:
    """Bytes below `overwritten/`, and elsewhere."""
    sizes = {path: path.stat().st_size for path in root.rglob("*") if path.is_file()}
    copies = sum(size for path, size in sizes.items() if path.parent.name == "overwritten")
    return copies, sum(sizes.values()) - copies


def _commit_chunk(repo: Any, number: int) -> None:
    session = repo.writable_session("main")
    data = default_buffer_prototype().buffer.from_bytes(bytes(4))
    sync(session.store.set(f"a/c/{number}", data))
    session.commit(f"{number}")


def measure_arrays(engine: Any, root: Path, count: int) -> Point:
    """Arrays without chunks in groups of a hundred, and ten commits that change one of them."""
    watch, name = Stopwatch(), f"g{count // 2 // GROUP}/a{count // 2}"
    session = engine.Repository.create(storage(engine, root)).writable_session("main")
    documents = _documents(count)
    sync(_put(session.store, documents))
    with watch("commit"):
        session.commit("arrays")
    with watch("open, one array"):
        session = engine.Repository.open(storage(engine, root)).readonly_session("main")
        zarr.open_array(session.store, path=name, mode="r")
    with watch("first list_dir of a group"):
        assert len(sync(_listed(session.store.list_dir("g0")))) == GROUP + 1
    with watch("list all keys"):
        assert len(sync(_listed(session.store.list()))) == len(documents)
    del documents
    repo = engine.Repository.open(storage(engine, root))
    for i in range(9):
        _touch(repo, name, i)
    with watch("change one"):
        _touch(repo, name, 9)
    history = [each.id for each in islice(repo.ancestry(branch="main"), 2)]
    with watch("diff of that"):
        repo.diff(from_snapshot_id=history[1], to_snapshot_id=history[0])
    repo = engine.Repository.open(storage(engine, root))
    with watch("gc, dry run"):
        repo.garbage_collect(datetime.now(UTC), dry_run=True)
    _verify(engine, root, watch)
    return _point(watch)


def _documents(count: int) -> dict[str, Any]:
    store = zarr.storage.MemoryStore()
    zarr.create_group(store)
    zarr.create_array(store, name="a", shape=(100,), chunks=(10,), dtype="f4")
    group = sync(store.get("zarr.json", default_buffer_prototype()))
    array = sync(store.get("a/zarr.json", default_buffer_prototype()))
    found = {"zarr.json": group}
    found |= {f"g{i}/zarr.json": group for i in range(-(-count // GROUP))}
    return found | {f"g{i // GROUP}/a{i}/zarr.json": array for i in range(count)}


async def _put(store: Any, documents: dict[str, Any]) -> None:
    for key, value in documents.items():
        await store.set(key, value)


async def _listed(names: Any) -> list[str]:
    return [name async for name in names]


def _touch(repo: Any, name: str, number: int) -> None:
    session = repo.writable_session("main")
    zarr.open_array(session.store, path=name).attrs["touched"] = number
    session.commit(f"{number}")


def _verify(engine: Any, root: Path, watch: Stopwatch) -> None:
    """Only frazil can. What takes too much memory is left out."""
    if engine.__name__ == "frazil":
        repo = engine.Repository.open(storage(engine, root))
        with suppress(MemoryError), watch("verify"):
            assert not repo.verify().problems


def _point(watch: Stopwatch) -> Point:
    found: Point = {}
    for name, phase in watch.phases.items():
        found[f"{name}, s"] = phase.cpu_seconds
        found[f"{name}, MB"] = max(0, phase.added_bytes) / 1e6
    return found


MEASURES: dict[str, Callable[[Any, Path, int], Point]] = {
    "references": measure_references,
    "history": measure_history,
    "commits": measure_commits,
    "backups": measure_backups,
    "arrays": measure_arrays,
}
SIZES = {
    "references": (10**4, 10**5, 10**6, 10**7),
    "history": (10**3, 10**4, 10**5, 10**6),
    "commits": (10**3, 10**4, 10**5),
    "backups": (300, 1000, 3000, 10_000),
    "arrays": (10**3, 10**4, 10**5, 10**6),
    "writers": (4, 16, 48),
}
QUICK = {
    "references": (10**4, 10**5),
    "history": (10**3, 10**4),
    "commits": (100, 1000),
    "backups": (30, 100),
    "arrays": (10**3, 10**4),
    "writers": (4,),
}


def measured(kind: str, engine: str, size: int) -> Point | str:
    """Measures in another process; a text says why there is no result."""
    with tempfile.TemporaryDirectory(prefix="frazil-scale-") as folder:
        command = [sys.executable, "-m", "benchmarks.scale", "--one", kind, engine, str(size)]
        try:
            done = subprocess.run(
                [*command, f"{folder}/repo"],
                check=False,
                capture_output=True,
                text=True,
                cwd=ROOT,
                timeout=LIMIT_S,
            )
        except subprocess.TimeoutExpired:
            return f"over {LIMIT_S} s"
    if done.returncode:
        return "out of memory (8 GiB)" if "emory" in done.stderr else done.stderr[-200:]
    point: Point = json.loads(done.stdout.splitlines()[-1])
    return point


def races(engine: str, size: int, *, quick: bool) -> dict[str, Point]:
    """Writers on the local disk and in a bucket with 20 ms."""
    places = {"local": 0.0, "bucket, 20 ms": 0.02}
    seconds = 5 if quick else 20
    return {
        place: asdict(hot_branch.measure(engine, size, seconds, latency_s))
        for place, latency_s in places.items()
    }


def table(kind: str, found: dict[tuple[str, int], Point | str]) -> str:
    """Rows of engines and sizes in Markdown; memory where it is not small."""
    points = [point for point in found.values() if isinstance(point, dict)]
    names = list(dict.fromkeys(name for point in points for name in point))
    names = [
        name
        for name in names
        if not name.endswith(", MB") or max(point.get(name, 0) for point in points) >= SHOWN_MB
    ]
    lines = [f"| {kind} | engine | " + " | ".join(names) + " |", "|---" * (len(names) + 2) + "|"]
    for (engine, size), point in found.items():
        if isinstance(point, str):
            cells = [point, *[""] * (len(names) - 1)]
        else:
            cells = [_shown(point[name]) if name in point else "" for name in names]
        lines.append(f"| {size:,} | {engine} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def _shown(number: float) -> str:
    return f"{number:,.0f}" if number >= 1000 else f"{number:.3g}"


def race_table(found: dict[tuple[str, int], dict[str, Point]]) -> str:
    names = ("per_second", "lost", "median_s", "p99_s", "jain", "least_share", "tries")
    lines = ["| writers | engine | where | " + " | ".join(names) + " |", "|---" * 10 + "|"]
    lines += [
        f"| {size} | {engine} | {place} | "
        + " | ".join(_shown(point[name]) for name in names)
        + " |"
        for (engine, size), places in found.items()
        for place, point in places.items()
    ]
    return "\n".join(lines)


def draw(kind: str, found: Mapping[tuple[str, int], Point | str], path: Path) -> None:
    """Curves of all that was measured in seconds, one below the other, both axes logarithmic."""
    points = {key: point for key, point in found.items() if isinstance(point, dict)}
    names = list(dict.fromkeys(name for point in points.values() for name in point))
    names = [name for name in names if name.endswith(", s") or name.startswith("MB")]
    across = min(4, len(names))
    down = -(-len(names) // across)
    mpl.rcParams |= {"svg.hashsalt": kind, "svg.fonttype": "none"}  # small, and the same each time
    figure, axes = plt.subplots(down, across, figsize=(3 * across, 2.4 * down), squeeze=False)
    for place, name in zip_longest(axes.flat, names):
        if name is None:
            place.set_axis_off()
            continue
        for engine in dict.fromkeys(engine for engine, _ in points):
            sizes = [n for each, n in points if each == engine and name in points[each, n]]
            values = [points[engine, size][name] for size in sizes]
            place.loglog(sizes, values, "o-", color=COLOURS.get(engine), label=engine, markersize=3)
        place.set_title(name, fontsize=9)
        place.tick_params(labelsize=7, which="both")
        place.grid(alpha=0.3)
    axes[0, 0].legend(fontsize=8)
    figure.supxlabel(kind, fontsize=9)
    figure.tight_layout()
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, metadata={"Date": None})
    plt.close(figure)


def run(kind: str, engines: list[str], *, quick: bool, page: Path | None) -> str:
    """The table, which is put into the page with a picture."""
    sizes = (QUICK if quick else SIZES)[kind]
    if kind == "writers":
        return race_table({(e, n): races(e, n, quick=quick) for n in sizes for e in engines})
    found: dict[tuple[str, int], Point | str] = {}
    failed = set[str]()
    if kind == "commits":  # the others keep all backups: 200 GB of 100,000 commits
        engines = [engine for engine in engines if engine == "frazil"]
    for size in sizes:
        for engine in engines:
            if engine not in failed:
                found[engine, size] = point = measured(kind, engine, size)
                failed |= {engine} if isinstance(point, str) else set()
    text = table(kind, found)
    if page is not None:
        image = Path("images") / "scale" / f"{kind}.svg"
        draw(kind, found, page.parent / image)
        text = f"![{kind}: cost against size]({image})\n\n{text}"
    return text


def put_into(page: Path, kind: str, text: str) -> None:
    """Replaces what is between the marks of a table."""
    marks = f"<!-- {kind} -->", f"<!-- end of {kind} -->"
    pattern = re.compile(f"{marks[0]}.*{marks[1]}", re.DOTALL)
    old = page.read_text()
    assert pattern.search(old), f"{page} has no place for {kind}"
    page.write_text(pattern.sub(lambda _: f"{marks[0]}\n{text}\n{marks[1]}", old))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else None)
    parser.add_argument("kinds", nargs="*", choices=[[], *SIZES], help="what to measure")
    parser.add_argument("--quick", action="store_true", help="small sizes, some minutes")
    parser.add_argument("--engines", nargs="+", default=["frazil", "icechunk"])
    parser.add_argument("--page", type=Path, help="also write the tables into this page")
    parser.add_argument("--one", nargs=4, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.one:
        kind, engine, size, place = arguments.one
        resource.setrlimit(resource.RLIMIT_DATA, (LIMIT_BYTES, LIMIT_BYTES))
        print(json.dumps(MEASURES[kind](import_module(engine), Path(place), int(size))))
        return
    for kind in arguments.kinds or SIZES:
        started = time.monotonic()
        text = run(kind, arguments.engines, quick=arguments.quick, page=arguments.page)
        print(f"{text}\n({time.monotonic() - started:.0f} s)\n", flush=True)
        if arguments.page:
            put_into(arguments.page, kind, text)


if __name__ == "__main__":
    main()
