"""Histories of several processes at once can be explained by one after another.

Seconds here; minutes with `make soak`.
"""

from pathlib import Path

import pytest

from tests.consistency.histories import run
from tests.consistency.places import Place
from tests.servers.s3 import S3Server

EVERYBODY = {
    "writer": 2, "rebaser": 2, "reader": 2, "tagger": 2, "brancher": 1,
    "collector": 1, "expirer": 1,
}  # fmt: skip
SECONDS = 3.0


def test_a_history_on_a_local_disk_is_serializable(tmp_path: Path) -> None:
    result = run(Place(tmp_path), EVERYBODY, SECONDS)
    assert result.wrong == []
    assert result.count("commit") > 3
    assert result.count("read") > 3
    assert result.count("create_tag") > 0
    assert result.count("collect") > 0


def test_a_history_on_a_server_is_serializable(tmp_path: Path, hot_s3_server: S3Server) -> None:
    arguments = hot_s3_server.arguments(hot_s3_server.new_prefix())
    result = run(Place(tmp_path, s3=arguments), EVERYBODY, SECONDS)
    assert result.wrong == []
    assert result.count("commit") > 3
    assert result.count("read") > 3


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
    for attempt in range(4):  # on a busy machine nobody may get in between for a while
        folder = tmp_path / str(attempt)
        folder.mkdir()
        found += run(Place(folder, store=store), {"writer": 4, "reader": 1}, 1.0).wrong
        if any(said in text for text in found):
            return
    pytest.fail(f"nothing of the kind was found: {found}")
