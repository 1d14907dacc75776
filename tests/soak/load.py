"""Load for minutes: 8 writers, 8 readers, garbage collection and expiry; figures, and what is lost.

    python -m tests.soak.load --seconds 280 --store local --store s3

Every process records what it did and saw; afterwards it must all be explained by one after another
(tests/consistency). Memory and open files of every process are measured from outside. Caches and
the ops log are so small that they are full when measuring begins: what grows then is a leak.
`--usual-caches` has them as users do, and shows how they fill.
"""

import argparse
import os
import shutil
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import psutil

from frazil import CachingConfig, RepositoryConfig, StorageRetriesSettings
from frazil.format.config import RepoUpdateRetryConfig
from tests.consistency import actors
from tests.consistency.histories import Result, examined, processes
from tests.consistency.places import Place
from tests.servers.s3 import start_seaweedfs

ROLES = {"writer": 4, "rebaser": 4, "reader": 8, "tagger": 1, "collector": 1, "expirer": 1}
EVERY_S = 2.0
# Who lost ten races would otherwise wait for up to half a minute, and little would be collected.
RETRIES = StorageRetriesSettings(max_tries=100, initial_backoff_ms=50, max_backoff_ms=1000)
USUAL = RepositoryConfig(repo_update_retries=RepoUpdateRetryConfig(RETRIES))
SMALL = replace(
    USUAL,
    caching=CachingConfig(num_snapshot_nodes=100, num_chunk_refs=400, num_transaction_changes=100),
    num_updates_per_repo_info_file=100,
)
WARM = 0.3  # of the time: what is loaded and cached until then is no leak
MEBI = 2**20


@dataclass(slots=True)
class Sizes:
    """Of one process, over time."""

    memory: list[int] = field(default_factory=list)  # bytes, resident
    files: list[int] = field(default_factory=list)  # open

    def growth(self) -> tuple[float, int]:
        """From when it was warm to the end, medians of some samples: MiB and files."""
        warm = int(len(self.memory) * WARM)
        some = max(1, (len(self.memory) - warm) // 4)
        memory, files = np.array(self.memory[warm:]), np.array(self.files[warm:])
        return (
            float(np.median(memory[-some:]) - np.median(memory[:some])) / MEBI,
            int(np.median(files[-some:]) - np.median(files[:some])),
        )


type Growth = dict[str, Sizes]


def run(place: Place, seconds: float, roles: Mapping[str, int] = ROLES) -> tuple[Result, Growth]:
    actors.create(place)
    context = processes()
    ready = context.Barrier(sum(roles.values()))
    running = {
        f"{role}{number}": context.Process(
            target=actors.run, args=(place, role, number, seconds, ready), daemon=True
        )
        for role, many in roles.items()
        for number in range(many)
    }
    for process in running.values():
        process.start()
    sizes = _watched({name: process.pid or 0 for name, process in running.items()}, seconds + 120)
    for process in running.values():
        process.join(120)
    return examined(place, [process.exitcode for process in running.values()]), sizes


def _watched(pids: Mapping[str, int], at_most_s: float) -> Growth:
    """Samples of all processes until they have ended."""
    sizes, until = defaultdict[str, Sizes](Sizes), time.monotonic() + at_most_s
    alive = dict(pids)
    while alive and time.monotonic() < until:
        for name, pid in list(alive.items()):
            try:
                process = psutil.Process(pid)
                memory, files = process.memory_info().rss, process.num_fds()
                gone = process.status() == psutil.STATUS_ZOMBIE
            except psutil.Error:
                gone = True
            if gone:
                del alive[name]
            else:
                sizes[name].memory.append(memory)
                sizes[name].files.append(files)
        time.sleep(EVERY_S)
    return dict(sizes)


def figures(result: Result, sizes: Growth, seconds: float) -> Iterator[tuple[str, str]]:
    commits, conflicts = result.count("commit"), result.count("commit", failed=True)
    yield "commits", f"{commits} ({commits / seconds:.1f}/s)"
    yield "conflicts", f"{conflicts} ({conflicts / max(1, commits + conflicts):.0%} of tries)"
    for kind in ("commit", "read"):
        took = [(e.end_ns - e.start_ns) / 1e6 for e in result.events if e.kind == kind]
        if took:
            low, high, most = np.percentile(took, [50, 95, 99])
            yield f"{kind}, ms at 50, 95, 99 %", f"{low:.0f}, {high:.0f}, {most:.0f}"
    yield "reads", str(result.count("read"))
    collections = result.count("collect"), result.count("expire")
    yield "collections and expirations", " and ".join(map(str, collections))
    growth = {name: each.growth() for name, each in sizes.items() if len(each.memory) > 3}
    if growth:
        memory, files = zip(*growth.values(), strict=True)
        yield "memory, MiB grown by the median process", f"{np.median(memory):+.1f}"
        yield "memory, MiB grown by the worst of each role", _worst_of_roles(growth)
        yield "open files, grown by the worst process", f"{max(files):+d}"
    yield "lost, or not to be explained", str(len(result.wrong))


def _worst_of_roles(growth: Mapping[str, tuple[float, int]]) -> str:
    worst = dict[str, float]()
    for name, (memory, _) in growth.items():
        role = name.rstrip("0123456789")
        worst[role] = max(memory, worst.get(role, memory))
    return ", ".join(f"{role} {memory:+.1f}" for role, memory in worst.items())


@contextmanager
def _place(kind: str, folder: Path, config: RepositoryConfig) -> Iterator[Place]:
    if kind == "local":
        yield Place(folder, config=config)
        return
    server = start_seaweedfs(folder / "server")
    try:
        s3 = server.arguments(server.new_prefix())
        yield Place(folder, s3=s3, config=config)
    finally:
        server.process.stop()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=280, help="for each store")
    parser.add_argument("--store", choices=["local", "s3"], action="append")
    parser.add_argument("--usual-caches", action="store_true", help="as large as by default")
    args = parser.parse_args()
    os.environ.setdefault("AWS_EC2_METADATA_DISABLED", "true")
    os.environ["NO_PROXY"] = os.environ["no_proxy"] = "127.0.0.1"
    failed = False
    for kind in args.store or ["local", "s3"]:
        folder = Path(tempfile.mkdtemp(prefix="frazil-soak-"))
        with _place(kind, folder, USUAL if args.usual_caches else SMALL) as place:
            result, sizes = run(place, args.seconds)
        lines = [f"{kind}: {sum(ROLES.values())} processes for {args.seconds:.0f} s"]
        lines += [f"  {name}: {text}" for name, text in figures(result, sizes, args.seconds)]
        lines += [f"  WRONG: {text}" for text in result.wrong[:10]]
        sys.stdout.write("\n".join([*lines, ""]))
        failed |= bool(result.wrong)
        shutil.rmtree(folder, ignore_errors=True)
    sys.exit(failed)


if __name__ == "__main__":
    main()
