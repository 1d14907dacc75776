"""Every fault, with every operation, at every moment: the table of docs/reliability.md.

    python -m scripts.make_reliability [--most N] [--only NAME]

`--most` looks at so many moments of each operation instead of all; `--only` does one part, and
prints it without writing the page.
"""

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import zarr

from frazil import IcechunkError, Repository, Storage
from frazil.objectstore.protocol import RemoteSettings
from frazil.testing.fault_proxy import FaultProxy
from frazil.testing.faults import (
    AnswerWith,
    CutResponse,
    DelayRequest,
    DelayResponse,
    DenyPermission,
    DropRequest,
    DropResponse,
    Fault,
    FillDisk,
    RandomFaults,
    RefuseWith,
    ServeStale,
    Throttle,
)
from tests.consistency import histories, places
from tests.crash import reference
from tests.crash.killed import Kill, LocalPlace, S3Place, attempt, rehearse
from tests.crash.operations import OPERATIONS
from tests.crash.power import failures, losses
from tests.crash.suffering import ERRNOS, KINDS, Victim, every
from tests.servers.s3 import S3Server, start_seaweedfs

PAGE = Path(__file__).parents[1] / "docs" / "reliability.md"
BEGIN, END = "<!-- table -->", "<!-- end of table -->"
LOCAL, S3, ANY = "local disk", "S3 (SeaweedFS)", "in memory"
BRISK = RemoteSettings(max_tries=8, initial_backoff_ms=2, max_backoff_ms=20, read_timeout_ms=400)
WIRE: dict[str, Fault] = {
    "error": RefuseWith(500),
    "error after the act": AnswerWith(500),
    "request lost": DropRequest(reset=True),
    "response lost": DropResponse(),
    "timeout, acts late": DelayRequest(0.6),
    "timeout, acted": DelayResponse(0.6),
    "slow": DelayResponse(0.05),
    "throttled (503, Retry-After)": Throttle(0),
    "body cut": CutResponse(20),
    "stale read": ServeStale(),
    "disk full (507)": FillDisk(),
    "permission denied": DenyPermission(),
}
COMMITS = 12
HISTORY_S = 20.0
HARD = ("commit", "refs", "expire_and_collect")  # operations that meet every fault


@dataclass(frozen=True, slots=True)
class Row:
    """`lost`: trials after which something was missing, half done, unclear or in the way."""

    fault: str
    store: str
    trials: int
    lost: int
    reference: str = ""

    @property
    def text(self) -> str:
        return f"| {self.fault} | {self.store} | {self.trials} | {self.lost} | {self.reference} |"


@dataclass(frozen=True, slots=True)
class Bench:
    """Settings that the parts share."""

    folder: Path
    most: int | None
    server: S3Server

    def new(self) -> Path:
        return Path(tempfile.mkdtemp(dir=self.folder))


def say(*problems: str) -> None:
    for problem in problems:
        sys.stderr.write(f"  {problem}\n")


# Parts


def killed_locally(bench: Bench) -> Iterator[Row]:
    problems = list[str]()
    for name in OPERATIONS:
        place = LocalPlace(bench.new())
        place.prepare(OPERATIONS[name])
        problems += _killed(place, name, bench.most)
    say(*filter(None, problems))
    theirs = "not looked at: no strace"
    if reference.is_possible():
        folder = bench.new()
        reference.prepare(folder)
        found = list(reference.problems(folder))
        theirs = f"{sum(map(bool, found))} of {len(found)} (commits only)"
    yield Row("SIGKILL at a system call", LOCAL, len(problems), _count(problems), theirs)


def killed_on_server(bench: Bench) -> Iterator[Row]:
    problems = list[str]()
    with FaultProxy(bench.server.host) as proxy:
        for name in OPERATIONS:
            place = S3Place(bench.server, proxy, bench.new())
            place.prepare(OPERATIONS[name])
            problems += _killed(place, name, bench.most)
    say(*filter(None, problems))
    yield Row("SIGKILL at a request", S3, len(problems), _count(problems))


def _killed(place: LocalPlace | S3Place, name: str, most: int | None) -> Iterator[str]:
    rehearsal = rehearse(place, name)
    for number in every(rehearsal.calls, most):
        yield attempt(place, name, rehearsal, Kill(number, "before")).problem
        if isinstance(place, S3Place) or number == rehearsal.calls - 1:
            # On a disk, after one call is before the next.
            yield attempt(place, name, rehearsal, Kill(number, "after")).problem


def power_failures(bench: Bench) -> Iterator[Row]:
    trials, problems = 0, list[str]()
    for name in OPERATIONS:
        folder = bench.new()
        states, left = failures(name, folder)
        chosen = [left[number] for number in every(len(left), bench.most)]
        trials += len(chosen)
        problems += losses(name, states, chosen, folder)
    say(*problems)
    theirs = "not looked at: no strace"
    if reference.is_possible():
        folder = bench.new()
        reference.prepare(folder)
        theirs = f"{reference.syncs(folder)} syncs in 2 commits: all may be lost"
    yield Row("power failure (simulated disk)", LOCAL, trials, len(problems), theirs)


def store_faults(bench: Bench) -> Iterator[Row]:
    for store, folder in ((ANY, None), (LOCAL, bench.new())):
        victims = [Victim(name, folder and folder / name) for name in HARD]
        for kind in KINDS:
            problems = [
                victim.suffer(KINDS[kind], number).problem
                for victim in victims
                for number in every(victim.requests, bench.most)
            ]
            say(*filter(None, problems))
            yield Row(kind, store, len(problems), _count(problems))


def disk_errors(bench: Bench) -> Iterator[Row]:
    victims = [Victim(name, bench.new()) for name in HARD]
    for name, (code, says) in ERRNOS.items():
        problems = [
            victim.suffer_locally(code, says, number, times=times).problem
            for victim in victims
            for number in every(victim.count_calls(), bench.most)
            for times in (1, 10**6)
        ]
        say(*filter(None, problems))
        yield Row(f"{name}, at a system call", LOCAL, len(problems), _count(problems))


def wire_faults(bench: Bench) -> Iterator[Row]:
    for name, fault in WIRE.items():
        with FaultProxy(bench.server.host) as proxy:
            hit, problems = _in_weather(bench.server, proxy, fault)
        say(*problems)
        yield Row(name, S3, hit, len(problems))


def _in_weather(server: S3Server, proxy: FaultProxy, fault: Fault) -> tuple[int, list[str]]:
    """Commits while the fault strikes at random: what was told must be there, once."""
    prefix = server.new_prefix()
    Repository.create(Storage(server.store(prefix)))
    told, unclear = list[str](), set[str]()
    # The entry point is read stale forever otherwise, and a commit would be tried for minutes.
    share = 0.1 if isinstance(fault, ServeStale) else 0.25
    proxy.choose = RandomFaults([fault], share=share, seed=7)
    for number in range(COMMITS):
        try:
            repo = Repository.open(Storage(server.at(proxy.url).store(prefix, BRISK)))
            session = repo.writable_session("main")
            zarr.create_group(session.store, path=str(number), overwrite=True)
            session.commit(str(number))
            told.append(str(number))
        except IcechunkError:
            unclear.add(str(number))
    repo = Repository.open(Storage(server.store(prefix)))
    found = [info.message for info in repo.ancestry(branch="main")][:-1][::-1]
    problems = [f"{name} is not there once" for name in told if found.count(name) != 1]
    problems += [f"{name} was not told" for name in found if name not in {*told, *unclear}]
    problems += [error.text for error in repo.verify().errors]
    return sum(one.fault is not None for one in proxy.seen), problems


def races(bench: Bench) -> Iterator[Row]:
    ours = histories.run(places.Place(bench.new()), {"writer": 8}, HISTORY_S)
    place = places.Place(bench.new(), engine="icechunk")
    theirs = histories.run(place, {"writer": 8}, HISTORY_S, engines=["icechunk"])
    lost = sum(text.startswith("lost") for text in theirs.wrong)
    say(*ours.wrong)
    yield Row(
        "8 processes commit at once",
        LOCAL,
        ours.count("commit"),
        len(ours.wrong),
        f"{lost} of {theirs.count('commit')} commits lost",
    )


def histories_of_all(bench: Bench) -> Iterator[Row]:
    roles = {"writer": 2, "rebaser": 2, "reader": 2, "tagger": 2, "brancher": 1}
    roles |= {"collector": 1, "expirer": 1}
    arguments = bench.server.arguments(bench.server.new_prefix())
    for store, s3 in ((LOCAL, {}), (S3, arguments)):
        result = histories.run(places.Place(bench.new(), s3=s3), roles, HISTORY_S)
        say(*result.wrong)
        trials, lost = len(result.events), len(result.wrong)
        yield Row("random history of 11 processes, by events", store, trials, lost)


def both_at_once(bench: Bench) -> Iterator[Row]:
    arguments = bench.server.arguments(bench.server.new_prefix())
    roles = {"writer": 2, "rebaser": 1, "reader": 1}
    place = places.Place(bench.new(), s3=arguments)
    result = histories.run(place, roles, HISTORY_S, engines=["frazil", "icechunk"])
    say(*result.wrong)
    trials, lost = result.count("commit"), len(result.wrong)
    yield Row("frazil and icechunk commit at once", S3, trials, lost, "the same history")


PARTS: dict[str, Callable[[Bench], Iterable[Row]]] = {
    "killed_locally": killed_locally,
    "killed_on_server": killed_on_server,
    "power_failures": power_failures,
    "store_faults": store_faults,
    "disk_errors": disk_errors,
    "wire_faults": wire_faults,
    "races": races,
    "histories": histories_of_all,
    "both_at_once": both_at_once,
}


def _count(problems: Iterable[str]) -> int:
    return sum(map(bool, problems))


@contextmanager
def _bench(most: int | None) -> Iterator[Bench]:
    os.environ["ICECHUNK_NO_LOGS"] = "1"
    os.environ["AWS_EC2_METADATA_DISABLED"] = "true"
    os.environ["NO_PROXY"] = os.environ["no_proxy"] = "127.0.0.1"
    with tempfile.TemporaryDirectory(prefix="frazil-reliability-") as folder:
        server = start_seaweedfs(Path(folder) / "server")
        try:
            yield Bench(Path(folder), most, server)
        finally:
            server.process.stop()


def written(rows: Iterable[Row], most: int | None) -> str:
    said = "Each operation was hit at every moment of it."
    if most is not None:
        said = f"Each operation was hit at up to {most} moments; `make reliability` tries all."
    head = [
        said,
        "",
        "| fault | store | trials | lost | `icechunk` 2.3.0: lost |",
        "|---|---|---|---|---|",
    ]
    return "\n".join([*head, *(row.text for row in rows)])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--most", type=int, help="moments of each operation")
    parser.add_argument("--only", choices=PARTS, action="append")
    args = parser.parse_args()
    rows = list[Row]()
    with _bench(args.most) as bench:
        for name in args.only or PARTS:
            began = time.monotonic()
            for row in PARTS[name](bench):
                rows.append(row)
                sys.stdout.write(f"{row.text}\n")
                sys.stdout.flush()
            sys.stderr.write(f"{name}: {time.monotonic() - began:.0f} s\n")
    if not args.only:
        before, _, rest = PAGE.read_text().partition(BEGIN)
        after = rest.partition(END)[2]
        PAGE.write_text(f"{before}{BEGIN}\n{written(rows, args.most)}\n{END}{after}")
    sys.exit(any(row.lost for row in rows))


if __name__ == "__main__":
    main()
