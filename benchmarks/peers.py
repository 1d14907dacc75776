"""One array, read and written by every engine that reads Zarr or Icechunk.

    python -m benchmarks.peers [ENGINE ...] [--side N] [--layouts L ...] [--repeat N] [--rounds N]
                               [--latency SECONDS] [--json FILE]
    python -m benchmarks.peers --threads 1 2 4 8 16 [--side N] [--layouts L ...]

Engines: frazil (as by default, without syncing what it writes, and so by `frazil.read_region` and
`write_region` instead of zarr's arrays), the reference with zarr's default and with its fused
pipeline, TensorStore and zarrs on plain Zarr of the same chunks. Each runs in a process of its own,
in turns, and does everything `--rounds` times with a new repository or array; the best counts.
There is a table of milliseconds, and one of milliseconds of processor time in all threads: on a
busy machine only that can be compared. The array is a cube of uint16 whose values do not repeat.
Files are in the page cache, and what engines import is imported: what is measured is the engine at
work, neither the disk nor its start.

zarrista 0.1.0 is not among them: it cannot open sessions of icechunk 2.3.0 ("Failed to reconstruct
icechunk Session").
"""

import argparse
import importlib.util
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import zarr
import zstandard
from rich.console import Console
from rich.table import Table
from zarr.codecs import BytesCodec, ShardingCodec, ZstdCodec

from benchmarks.slow_bucket import BUCKET, HOST, slow_bucket
from benchmarks.storages import PORT, empty_files, storage

ROOT = Path(__file__).parents[1]
WINDOWS, WINDOW = 60, 40
ELEMENTS = 100
type Values = npt.NDArray[np.uint16]

# shape of what is one object in the store, of what is compressed, and the compressors
LAYOUTS: dict[str, tuple[int, int, bool]] = {
    "raw": (128, 128, False),
    "zstd": (64, 64, True),
    "shards": (128, 32, True),
}


class Handle(Protocol):
    """An array of an engine, as far as the tasks need it."""

    def read(self, where: tuple[Any, ...]) -> Values: ...
    def write(self, where: tuple[Any, ...], values: Values) -> None: ...


class Engine(Protocol):
    """Opens the array below a folder; `create` makes it, and `finish` commits what was written."""

    def create(self, folder: Path, side: int, layout: str) -> Handle: ...
    def open(self, folder: Path) -> Handle: ...
    def finish(self) -> None: ...


def some_values(side: int) -> Values:
    """A smooth field with noise: zstd makes about half of it."""
    axis = np.linspace(0, 9, side)
    field = np.sin(axis)[:, None, None] + np.cos(axis)[None, :, None] * np.sin(axis)[None, None, :]
    noise = np.random.default_rng(21).normal(0, 0.004, (side, side, side))
    found: Values = ((field + 3 + noise) * 5000).astype(np.uint16)
    return found


def codecs_of(layout: str) -> dict[str, Any]:
    outer, inner, is_compressed = LAYOUTS[layout]
    compressors = [ZstdCodec(level=1)] if is_compressed else []
    if outer == inner:
        return {"chunks": (outer,) * 3, "compressors": compressors or None}
    serializer = ShardingCodec(chunk_shape=(inner,) * 3, codecs=[BytesCodec(), *compressors])
    return {"chunks": (outer,) * 3, "serializer": serializer, "compressors": None}


# Engines


class _Zarr:
    def __init__(self, array: Any) -> None:
        self.array = array

    def read(self, where: tuple[Any, ...]) -> Values:
        chosen = self.array.oindex if any(isinstance(p, np.ndarray) for p in where) else self.array
        return np.asarray(chosen[where])

    def write(self, where: tuple[Any, ...], values: Values) -> None:
        self.array[where] = values


class Icechunk:
    """A repository, by way of zarr: the reference or frazil."""

    def __init__(self, package: str, *, is_synced: bool = False, pipeline: str = "") -> None:
        self.package = importlib.import_module(package)
        self.is_synced = is_synced
        if pipeline:
            zarr.config.set({"codec_pipeline.path": pipeline})

    def storage(self, folder: Path) -> Any:
        return storage(self.package, folder, durable=self.is_synced)

    def create(self, folder: Path, side: int, layout: str) -> Handle:
        repository = self.package.Repository.create(self.storage(folder))
        self.session = repository.writable_session("main")
        options = codecs_of(layout)
        return _Zarr(
            zarr.create_array(
                self.session.store, name="a", shape=(side,) * 3, dtype="u2", **options
            )
        )

    def open(self, folder: Path) -> Handle:
        self.session = self.package.Repository.open(self.storage(folder)).writable_session("main")
        return _Zarr(zarr.open_array(self.session.store, path="a"))

    def finish(self) -> None:
        self.session.commit("values")


class Regions:
    """An array of frazil by `read_region` and `write_region`; orthogonal selections by zarr."""

    def __init__(self, session: Any) -> None:
        self.package = importlib.import_module("frazil")
        self.session = session
        self.array = _Zarr(zarr.open_array(session.store, path="a"))

    def read(self, where: tuple[Any, ...]) -> Values:
        if any(isinstance(place, np.ndarray) for place in where):
            return self.array.read(where)
        found: Values = self.package.read_region(self.session, "a", where)
        return found

    def write(self, where: tuple[Any, ...], values: Values) -> None:
        self.package.write_region(self.session, "a", where, values)


class IcechunkRegions(Icechunk):
    def create(self, folder: Path, side: int, layout: str) -> Handle:
        super().create(folder, side, layout)
        return Regions(self.session)

    def open(self, folder: Path) -> Handle:
        super().open(folder)
        return Regions(self.session)


class Zarrs:
    def __init__(self) -> None:
        importlib.import_module("zarrs")
        zarr.config.set({"codec_pipeline.path": "zarrs.ZarrsCodecPipeline"})

    def create(self, folder: Path, side: int, layout: str) -> Handle:
        options = codecs_of(layout)
        return _Zarr(zarr.create_array(str(folder), shape=(side,) * 3, dtype="u2", **options))

    def open(self, folder: Path) -> Handle:
        return _Zarr(zarr.open_array(str(folder)))

    def finish(self) -> None:
        pass


class _TensorStoreArray:
    def __init__(self, array: Any) -> None:
        self.array = array

    def read(self, where: tuple[Any, ...]) -> Values:
        found: Values = self.array.oindex[where].read().result()
        return found

    def write(self, where: tuple[Any, ...], values: Values) -> None:
        self.array[where].write(values).result()


class TensorStore:
    def __init__(self) -> None:
        self.package = importlib.import_module("tensorstore")

    def create(self, folder: Path, side: int, layout: str) -> Handle:
        made = zarr.create_array({}, shape=(side,) * 3, dtype="u2", **codecs_of(layout))
        document = json.loads(json.dumps(made.metadata.to_dict()))
        unknown = ("storage_transformers", "attributes", "consolidated_metadata")
        spec = self._spec(folder) | {
            "metadata": {name: each for name, each in document.items() if name not in unknown}
        }
        return _TensorStoreArray(self.package.open(spec, create=True).result())

    def open(self, folder: Path) -> Handle:
        return _TensorStoreArray(self.package.open(self._spec(folder)).result())

    def _spec(self, folder: Path) -> dict[str, Any]:
        store: dict[str, Any] = {"driver": "file", "path": f"{folder}/"}
        if port := os.environ.get(PORT):
            store = {
                "driver": "s3",
                "bucket": BUCKET,
                "path": f"tensorstore-{folder.name}/",
                "endpoint": f"http://{HOST}:{port}",
                "aws_region": "us-east-1",
                "aws_credentials": {"type": "anonymous"},
            }
        return {"driver": "zarr3", "kvstore": store}

    def finish(self) -> None:
        pass


ENGINES: dict[str, Callable[[], Engine]] = {
    "icechunk": lambda: Icechunk("icechunk"),
    "icechunk, fused": lambda: Icechunk(
        "icechunk", pipeline="zarr.core.codec_pipeline.FusedCodecPipeline"
    ),
    "zarrs": Zarrs,
    "tensorstore": TensorStore,
    "frazil": lambda: Icechunk("frazil"),
    "frazil, regions": lambda: IcechunkRegions("frazil"),
    "frazil, synced": lambda: Icechunk("frazil", is_synced=True),
}
OURS = ("frazil", "frazil, regions", "frazil, synced")
LOCAL = ("zarrs", "frazil, synced")  # not in a bucket: zarrs reads no S3, and a put is a sync


# Tasks


def windows(side: int, seed: int) -> Iterator[tuple[slice, ...]]:
    for corner in np.random.default_rng(seed).integers(0, side - WINDOW, (WINDOWS, 3)).tolist():
        yield tuple(slice(start, start + WINDOW) for start in corner)


def read_all(array: Handle, values: Values, _: int) -> None:
    assert np.array_equal(array.read((slice(None),) * 3), values)


def read_by_chunk(array: Handle, values: Values, outer: int) -> None:
    side = len(values)
    for corner in np.ndindex(*(-(-n // outer) for n in values.shape)):
        array.read(tuple(slice(k * outer, min((k + 1) * outer, side)) for k in corner))


def read_windows(array: Handle, values: Values, _: int) -> None:
    for where in windows(len(values), 1):
        array.read(where)


def read_elements(array: Handle, values: Values, _: int) -> None:
    for place in np.random.default_rng(2).integers(0, len(values), (ELEMENTS, 3)).tolist():
        assert array.read(tuple(place)).item() == values[tuple(place)]


def read_strided(array: Handle, values: Values, _: int) -> None:
    where = (slice(None, None, 3), slice(5, None, 7), slice(None, None, 2))
    assert np.array_equal(array.read(where), values[where])


def read_orthogonal(array: Handle, values: Values, _: int) -> None:
    rng = np.random.default_rng(3)
    x, y = (np.sort(rng.choice(len(values), 20, replace=False)) for _ in range(2))
    assert np.array_equal(array.read((x, y, slice(None))), values[x][:, y])


def write_windows(array: Handle, values: Values, _: int) -> None:
    for where in windows(len(values), 4):
        array.write(where, values[where] + 1)


READS = (
    read_all,
    read_by_chunk,
    read_windows,
    read_elements,
    read_strided,
    read_orthogonal,
)


type Taken = dict[str, tuple[float, float]]  # seconds and seconds of processor time, by task


def keep_best(best: Taken, taken: Taken) -> None:
    for task, (wall, processor) in taken.items():
        known = best.get(task, (wall, processor))
        best[task] = min(known[0], wall), min(known[1], processor)


def run_tasks(name: str, layout: str, side: int, folder: Path, rounds: int = 1) -> Taken:
    """Best times of each task."""
    taken: Taken = {}

    @contextmanager
    def timed(task: str) -> Iterator[None]:
        started, processor = time.perf_counter(), time.process_time()
        yield
        now = time.perf_counter() - started, time.process_time() - processor
        keep_best(taken, {task: now})

    engine = ENGINES[name]()
    values, outer = some_values(side), LAYOUTS[layout][0]
    for turn in range(rounds):
        own = Path(f"{folder}-{turn}")
        with timed("write"):
            array = engine.create(own, side, layout)
            array.write((slice(None),) * 3, values)
            engine.finish()
        array = engine.open(own)
        for task in READS:
            with timed(task.__name__):
                task(array, values, outer)
        with timed("write_windows"):
            write_windows(array, values, outer)
            engine.finish()
        empty_files(own)
    return taken


# Processor time of frazil by the number of threads, and how much of it holds the interpreter's lock


class FreeTime:
    """Processor time of calls that run without the interpreter's lock."""

    def __init__(self) -> None:
        self.seconds = dict.fromkeys(("zstd", "files", "copies"), 0.0)

    def count(self, kind: str, call: Callable[..., Any]) -> Callable[..., Any]:
        def counted(*given: Any, **named: Any) -> Any:
            started = time.thread_time()
            try:
                return call(*given, **named)
            finally:
                self.seconds[kind] += time.thread_time() - started

        return counted

    def watch(self) -> None:
        coding: Any = importlib.import_module("frazil.zarrstore.pipeline.coding")
        reading: Any = importlib.import_module("frazil.zarrstore.pipeline.reading")
        for name in ("pread", "preadv", "write", "writev"):
            setattr(os, name, self.count("files", getattr(os, name)))
        reading.put = self.count("copies", reading.put)
        coding.zstandard = SimpleNamespace(
            **vars(zstandard)
            | {
                "ZstdCompressor": self._watched(zstandard.ZstdCompressor, "compress"),
                "ZstdDecompressor": self._watched(zstandard.ZstdDecompressor, "decompress"),
            }
        )
        coding.zstd_contexts = coding.ZstdContexts()

    def _watched(self, made: Callable[..., Any], method: str) -> Callable[..., Any]:
        def make(*given: Any, **options: Any) -> Any:
            coder = made(*given, **options)
            counted = {method: self.count("zstd", getattr(coder, method))}
            return SimpleNamespace(stream_reader=coder.stream_reader, **counted)

        return make


def run_threads(threads: int, layout: str, side: int, folder: Path) -> dict[str, list[float]]:
    """Seconds of processor time per gigabyte, best of five: all, and those without the lock."""
    importlib.import_module("frazil.zarrstore.pipeline.reading").coders.width = threads
    free = FreeTime()
    free.watch()
    values, gigabytes = some_values(side), 2 * side**3 / 1e9
    engine, best = Icechunk("frazil"), dict[str, list[float]]()
    for turn in range(5):
        array = engine.create(folder / str(turn), side, layout)
        for task in ("write", "read_all"):
            free.seconds = dict.fromkeys(free.seconds, 0.0)
            started = time.process_time()
            if task == "write":
                array.write((slice(None),) * 3, values)
            else:
                array.read((slice(None),) * 3)
            spent = [time.process_time() - started, *free.seconds.values()]
            best[task] = min(best.get(task, [9e9]), [part / gigabytes for part in spent])
    return best


def print_threads(layout: str, side: int, counts: Sequence[int]) -> None:
    for threads in counts:
        with tempfile.TemporaryDirectory(prefix="frazil-bench-") as folder:
            what = [str(threads), layout, str(side), folder]
            command = [sys.executable, "-m", "benchmarks.peers", "--threads-worker", *what]
            done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=ROOT)
        for task, (total, *free) in json.loads(done.stdout.splitlines()[-1]).items():
            parts = ", ".join(
                f"{name} {part:.2f}"
                for name, part in zip(("zstd", "files", "copies"), free, strict=True)
            )
            print(
                f"{layout}, {task}, {threads} threads: {total:.2f} s of processor time per GB;"
                f" {parts}; with the lock {1 - sum(free) / total:.0%}"
            )


# Report


def run_apart(folder: str, name: str, layout: str, side: int, rounds: int) -> Taken | None:
    own = tempfile.mkdtemp(dir=folder)
    what = [name, layout, str(side), f"{own}/a", str(rounds)]
    command = ["-m", "benchmarks.peers", "--worker", *what]
    done = subprocess.run(
        [sys.executable, *command], capture_output=True, text=True, check=False, cwd=ROOT
    )
    if done.returncode:
        print(f"{name}, {layout}: failed\n{done.stderr[-2000:]}", file=sys.stderr)
        return None
    found: Taken = json.loads(done.stdout.splitlines()[-1])
    return found


def measure(
    folder: str, engines: Sequence[str], layout: str, options: argparse.Namespace
) -> dict[str, Taken]:
    """Best times by engine and task."""
    best: dict[str, Taken] = {name: {} for name in engines}
    for turn in range(options.repeat):
        for name in engines if turn % 2 == 0 else engines[::-1]:
            with slow_bucket(options.latency) if options.latency else nullcontext() as port:
                if port is not None:
                    os.environ[PORT] = str(port)
                taken = run_apart(folder, name, layout, options.side, options.rounds)
                keep_best(best[name], taken or {})
    return best


def table_of(layout: str, unit: str, best: dict[str, dict[str, float]]) -> Table:
    """Milliseconds; `best` has seconds by engine and task."""
    outer, inner, is_compressed = LAYOUTS[layout]
    kind = ("zstd" if is_compressed else "raw") + (f" in shards of {outer}^3" * (outer != inner))
    table = Table(title=f"{kind}, chunks of {inner}^3", title_justify="left")
    table.add_column(f"task, {unit}")
    for name in best:
        table.add_column(name, justify="right")
    compared = [name for name in OURS[:2] if name in best]
    for name in compared:
        table.add_column(f"best other / {name}", justify="right")
    for task in dict.fromkeys(task for found in best.values() for task in found):
        cells = [f"{found[task] * 1e3:.0f}" if task in found else "-" for found in best.values()]
        others = [found[task] for name, found in best.items() if name not in OURS and task in found]
        ratios = [
            f"{min(others) / best[name][task]:.2f}" if others and task in best[name] else "-"
            for name in compared
        ]
        table.add_row(task, *cells, *ratios)
    return table


def select(best: dict[str, Taken], column: int) -> dict[str, dict[str, float]]:
    """Seconds, or those of processor time."""
    return {
        name: {task: both[column] for task, both in taken.items()} for name, taken in best.items()
    }


def usable(engines: Sequence[str], *, in_bucket: bool) -> list[str]:
    missing = [
        name
        for name in ("zarrs", "tensorstore")
        if name in engines and importlib.util.find_spec(name) is None
    ]
    for name in missing:
        print(f"{name} is not installed: pip install {name}", file=sys.stderr)
    left_out = {*missing, *(LOCAL if in_bucket else ())}
    return [name for name in engines if name not in left_out]


def work(arguments: argparse.Namespace) -> None:
    """Runs in a process of its own, and prints what was measured."""
    if arguments.threads_worker:
        threads, layout, side, folder = arguments.threads_worker
        print(json.dumps(run_threads(int(threads), layout, int(side), Path(folder))), flush=True)
        return
    name, layout, side, folder, rounds = arguments.worker
    run_tasks(name, layout, 2 * WINDOW, Path(f"{folder}-warm"))
    taken = run_tasks(name, layout, int(side), Path(folder), int(rounds))
    print(json.dumps(taken), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else None)
    parser.add_argument("engines", nargs="*", help=", ".join(ENGINES))
    parser.add_argument("--side", type=int, default=384, help="of the cube")
    parser.add_argument("--layouts", nargs="+", default=list(LAYOUTS), choices=LAYOUTS)
    parser.add_argument("--repeat", type=int, default=3, help="repetitions; the best counts")
    parser.add_argument("--rounds", type=int, default=2, help="of one process; the best counts")
    parser.add_argument("--latency", type=float, default=0, help="in a bucket that takes so long")
    parser.add_argument("--json", type=Path, help="also write the seconds to this file")
    parser.add_argument("--threads", nargs="+", type=int, help="only frazil, by number of threads")
    parser.add_argument("--threads-worker", nargs=4, help=argparse.SUPPRESS)
    parser.add_argument("--worker", nargs=5, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.worker or arguments.threads_worker:
        work(arguments)
        return
    if arguments.threads:
        for layout in arguments.layouts:
            print_threads(layout, arguments.side, arguments.threads)
        return
    engines = arguments.engines or list(ENGINES)
    if unknown := set(engines) - ENGINES.keys():
        parser.error(f"unknown engines: {', '.join(sorted(unknown))}")
    engines = usable(engines, in_bucket=bool(arguments.latency))
    console = Console(width=None if sys.stdout.isatty() else 150)
    results = {}
    with tempfile.TemporaryDirectory(prefix="frazil-bench-") as folder:
        for layout in arguments.layouts:
            results[layout] = measure(folder, engines, layout, arguments)
            for column, unit in enumerate(("ms", "ms of processor time")):
                console.print(table_of(layout, unit, select(results[layout], column)))
    if arguments.json:
        arguments.json.write_text(json.dumps(results, indent=2) + "\n")


if __name__ == "__main__":
    main()
