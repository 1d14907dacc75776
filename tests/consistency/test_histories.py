"""Histories of several processes at once can be explained by one after another.

Seconds here; minutes with `make soak`.
"""

from collections.abc import Callable
from pathlib import Path

import pytest

import frazil
from frazil import Repository
from tests.consistency.events import CANCELLED
from tests.consistency.histories import Result, run
from tests.consistency.places import Place
from tests.servers.s3 import S3Server

EVERYBODY = {
    "writer": 2, "rebaser": 2, "reader": 2, "tagger": 2, "brancher": 1,
    "collector": 1, "expirer": 1,
}  # fmt: skip
SECONDS = (3.0, 10.0, 40.0)  # of runs, until one has enough in it: machines may be busy


def run_until_enough(place_of: Callable[[str], Place]) -> Result:
    for seconds in SECONDS:
        result = run(place_of(f"{seconds:.0f}-seconds"), EVERYBODY, seconds)
        assert result.wrong == []
        if result.count("commit") > 3 and result.count("read") > 3:
            return result
    raise AssertionError("too few commits")


def test_a_history_on_a_local_disk_is_serializable(tmp_path: Path) -> None:
    def place_of(name: str) -> Place:
        (tmp_path / name).mkdir()
        return Place(tmp_path / name)

    result = run_until_enough(place_of)
    assert result.count("create_tag") > 0
    assert result.count("collect") > 0


def test_a_history_on_a_server_is_serializable(tmp_path: Path, hot_s3_server: S3Server) -> None:
    def place_of(name: str) -> Place:
        (tmp_path / name).mkdir()
        arguments = hot_s3_server.arguments(hot_s3_server.new_prefix())
        return Place(tmp_path / name, s3=arguments)

    run_until_enough(place_of)


GROUP = {"rebaser": 4, "canceller": 2, "reader": 1, "collector": 1, "expirer": 1}


def test_a_history_of_group_commits_is_serializable(
    tmp_path: Path, hot_s3_server: S3Server
) -> None:
    """With writers that give up, and writers of the reference that know nothing of groups."""
    for seconds in SECONDS:
        folder = tmp_path / f"{seconds:.0f}-seconds"
        folder.mkdir()
        prefix = hot_s3_server.new_prefix()
        place = Place(folder, s3=hot_s3_server.arguments(prefix), grouped=True)
        result = run(place, GROUP, seconds, guests={"rebaser": 1, "reader": 1})
        assert result.wrong == []
        grouped = grouped_commits(hot_s3_server, prefix)
        cancelled = sum(event.error == CANCELLED for event in result.events)
        if result.count("commit") > 5 and max(grouped) > 1 and cancelled:
            return
    raise AssertionError("too few commits in groups")


def grouped_commits(server: S3Server, prefix: str) -> list[int]:
    """Commits of each swap, by the entries of the ops log that cite no backup of their own."""
    sizes = [0]
    for update in Repository.open(server.storage(frazil, prefix)).ops_log():
        if update.backup_path is not None:
            sizes.append(0)
        sizes[-1] += type(update.kind).__name__ == "NewCommit"
    return sizes


@pytest.mark.parametrize(
    ("store", "said"),
    [
        ("always swapping", "lost"),
        ("without lock", "lost"),
        ("remembering reads", "not the tip"),
    ],
)
def test_a_planted_bug_is_found_out(tmp_path: Path, store: str, said: str) -> None:
    """The proof that the tests above can fail."""
    found = list[str]()
    for attempt in range(10):  # on a busy machine nobody may get in between for a while
        folder = tmp_path / str(attempt)
        folder.mkdir()
        found += run(Place(folder, store=store), {"writer": 4, "reader": 1}, 1.0).wrong
        if any(said in text for text in found):
            return
    pytest.fail(f"nothing of the kind was found: {found}")
