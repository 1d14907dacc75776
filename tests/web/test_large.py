"""Ten thousand commits and a million chunks, without stalling.

Processor time is bounded, not the clock: other tests run at the same time.
"""

import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from playwright.sync_api import Browser

from benchmarks.made_up_history import build_history
from frazil.engine.repository import Repository
from frazil.format.chunk_refs import ChunkRefs
from frazil.objectstore.local import LocalStore
from frazil.objectstore.memory import MemoryStore
from frazil.paths import NodePath
from frazil.web.server import Server
from tests.web.browsing import window
from tests.web.made import Client, document

COMMITS, SIDE = 10_000, 1000
WRITTEN = 990_000  # of a million chunks
BIG = NodePath("/big")


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("large") / "repo"
    build_history(path, COMMITS, 8)
    repository = Repository.open(LocalStore(path, fsync=False))
    session = repository.writable_session("main")
    session.set_node(BIG, document((SIDE, SIDE), (1, 1)))
    places = np.arange(WRITTEN)
    index = np.stack(np.divmod(places, SIDE), axis=1)
    files = [f"s3://bucket/file-{number}.nc" for number in range(100)]
    locations = [files[number] for number in (places % 100).tolist()]
    refs = ChunkRefs.virtual(index, locations, places * 8, 8)
    session.set_chunk_refs(BIG, refs)
    session.commit("A million chunks, nearly")
    session = repository.writable_session("main")
    session.set_chunk(BIG, (500, 500), bytes(8))
    session.commit("One of them again")
    return path


@pytest.fixture(scope="module")
def running(place: Path) -> Iterator[Server]:
    with Server(Repository.open(LocalStore(place)), name="large") as server:
        yield server


def cost_s(work: Callable[[], object]) -> float:
    """Seconds of processor time of this process, in which the server is."""
    start = time.process_time()
    work()
    return time.process_time() - start


def test_a_million_chunks_are_mapped_in_a_moment(running: Server) -> None:
    client = Client.of(running)
    assert client.json("chunks", path=BIG)["counts"] == {
        "missing": SIDE**2 - WRITTEN,
        "inline": 1,
        "native": 0,
        "packed": 0,
        "virtual": WRITTEN - 1,
    }
    for asked in ({}, {"by": "commit"}, {"map_axes": "wrapped"}, {"window": "0,48,0,48"}):
        assert cost_s(partial(client.png, "chunk-map.png", path=BIG, **asked)) < 5
    found = client.json("chunk-map", path=BIG, by="commit")
    assert (found["height"], found["width"]) == (512, 512)
    assert [(each["label"], each["chunks"]) for each in found["legend"]] == [
        ("One of them again", 1),
        ("A million chunks, nearly", WRITTEN - 1),
    ]


def test_ten_thousand_commits_come_by_the_page(running: Server) -> None:
    client = Client.of(running)
    total = COMMITS + 2
    client.json("commits")
    for offset in (0, 5000, 9900):
        assert cost_s(partial(client.json, "commits", offset=offset)) < 2
    assert client.json("commits")["total"] == total
    last = client.json("commits", offset=total - 1)
    assert (last["parent"], last["message"]) == ([None], ["commit number 0"])
    assert cost_s(lambda: client.json("search", q="number 4321")) < 2


@pytest.mark.long  # the commits take minutes
@pytest.mark.timeout(1800)
def test_ten_thousand_real_commits_are_told_apart() -> None:
    tell_apart(COMMITS)


def tell_apart(commits: int) -> None:
    """One chunk a commit."""
    repository = Repository.create(MemoryStore())
    session = repository.writable_session("main")
    session.set_node(BIG, document((commits,), (1,)))
    session.commit("array")
    for number in range(commits):
        session = repository.writable_session("main")
        session.set_chunk(BIG, (number,), bytes(8))
        session.commit(f"commit number {number}")
    with Server(Repository.open(repository.store)) as server:
        client = Client.of(server)
        ask = partial(client.json, "chunk-map", path=BIG, by="commit")
        assert cost_s(ask) < 10
        assert [each["chunks"] for each in ask()["legend"]] == [1] * 12 + [commits - 12]
        found = client.json("chunk", path=BIG, index=commits // 3)
        assert (
            client.json("commit", at=found["commit"])["message"] == f"commit number {commits // 3}"
        )


def test_the_list_of_commits_has_few_rows_at_a_time(browser: Browser, running: Server) -> None:
    with window(browser, running.url) as seen:
        seen.visit("commits")
        assert seen.texts("#commit-count") == ["10,002 snapshots, newest first"]
        seen.page.keyboard.press("End")
        seen.page.wait_for_selector("text=commit number 0")
        assert seen.page.locator(".row").count() < 100
        seen.page.evaluate("document.querySelector('.list').scrollTop = 5000 * 38")
        seen.page.wait_for_selector("#row-5000 .message")
        assert seen.page.locator(".row").count() < 100
        message = seen.texts("#row-5000 .message > bdi")
        assert message == Client.of(running).json("commits", offset=5000, limit=1)["message"]


def test_a_map_of_a_million_chunks_is_looked_at_closer(browser: Browser, running: Server) -> None:
    with window(browser, running.url) as seen:
        seen.visit("browse", path=BIG)
        assert "virtual" in seen.texts("#preview-problem")[0]
        size = seen.page.eval_on_selector("#chunks .map img", "image => image.naturalWidth")
        assert size == 512
        seen.page.locator("#chunks .map").click()  # in the middle
        seen.page.wait_for_selector("text=Whole map")
        first, last, left, right = map(int, seen.parameters()["window"].split(","))
        assert (last - first, right - left) == (48, 48)
        assert first <= 500 < last
        seen.page.focus("#chunks .map")
        seen.page.keyboard.press("ArrowDown")
        seen.page.keyboard.press("Enter")
        seen.page.wait_for_selector("#chunk-facts")
        row, column = map(int, seen.parameters()["chunk"].split(","))
        assert first < row < last
        assert left < column < right
        found = Client.of(running).json("chunk", path=BIG, index=f"{row},{column}")
        assert seen.texts("#chunk-facts dd")[0] == found["kind"]
