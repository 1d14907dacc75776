"""Repositories stored otherwise, and things purged, from the command line."""

import shutil
from pathlib import Path

import pytest
import typer

from frazil.cli.options import parse_size
from frazil.cli.rewrite import rewrite_manifests
from frazil.engine.repository import Repository
from frazil.objectstore.local import LocalStore
from frazil.paths import NodePath
from tests.cli.conftest import Example
from tests.cli.running import fails, frazil, succeeds
from tests.cli.test_terminal import on_a_terminal
from tests.unit.maintenance.contents import contents_of
from tests.unit.spec.written import GROUP, array_metadata

ARRAY = NodePath("/g/a")


def opened(path: Path) -> Repository:
    return Repository.open(LocalStore(str(path)))


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Twenty chunks of a kilobyte."""
    path = tmp_path_factory.mktemp("made") / "repo"
    session = Repository.create(LocalStore(str(path))).writable_session("main")
    session.set_node(NodePath("/g"), GROUP)
    session.set_node(ARRAY, array_metadata((20,), (1,), dimension_names=["time"]))
    for number in range(20):
        session.set_chunk(ARRAY, (number,), bytes([number]) * 1024)
    session.commit("the secret one")
    return path


@pytest.fixture
def repo(made: Path, tmp_path: Path) -> Path:
    shutil.copytree(made, tmp_path / "repo")
    return tmp_path / "repo"


def test_chunks_are_packed_and_unpacked(repo: Path) -> None:
    before = contents_of(opened(repo))
    options = ("--small", "2K", "--size", "10KiB", "--json")
    planned = succeeds("pack", repo, "/g", *options, "--dry-run").json
    assert len(list((repo / "chunks").iterdir())) == 20
    done = succeeds("pack", repo, "/g", *options).json
    counts = {"chunks": 20, "packs": 2, "references": 20, "size_bytes": 20480}
    assert planned == {"dry_run": True, "snapshot_id": None, "manifests": 0, **counts}
    tip = opened(repo).lookup_branch("main")
    assert done == {"dry_run": False, "snapshot_id": str(tip), "manifests": 1, **counts}
    assert len(list((repo / "chunks").iterdir())) == 22
    assert contents_of(opened(repo)) == before
    assert succeeds("pack", repo, "/g", *options[:-1]).lines == ["nothing to pack"]
    assert succeeds("unpack", repo, "--dry-run").lines == [
        "20 chunks (20.0 KiB) would be unpacked: 2 packs"
    ]
    lines = succeeds("unpack", repo, "-m", "apart").lines
    tip = opened(repo).lookup_branch("main")
    assert lines == [
        "20 chunks (20.0 KiB) unpacked: 2 packs",
        f"branch main is now at new snapshot {tip}",
    ]
    assert succeeds("log", repo, "-n", 1, "--json").json[0]["message"] == "apart"
    assert contents_of(opened(repo)) == before


@pytest.mark.parametrize(
    ("text", "size"), [("4096", 4096), ("500k", 512000), ("16M", 1 << 24), ("1 GiB", 1 << 30)]
)
def test_sizes_are_written_in_many_ways(text: str, size: int) -> None:
    assert parse_size(text) == size


@pytest.mark.parametrize("text", ["lots", "-1", "", "1.5M", "1X"])
def test_sizes_that_are_none_are_refused(text: str) -> None:
    with pytest.raises(typer.BadParameter, match="not a size"):
        parse_size(text)


def test_an_array_that_is_not_there_is_an_error(repo: Path) -> None:
    assert fails("pack", repo, "/nowhere")[0] == "error: node not found at `/nowhere`"


def test_manifests_are_rewritten(repo: Path) -> None:
    planned = succeeds("rewrite-manifests", repo, "--split", "time=5", "--dry-run").lines
    assert planned == ["1 manifest of 1 array would be rewritten"]
    done = succeeds("rewrite-manifests", repo, "--split", "time=5", "--json").json
    assert (done["manifests_before"], done["manifests"], done["references"]) == (1, 4, 20)
    lines = succeeds("rewrite-manifests", repo, "--split", "0=10", "--amend").lines
    assert lines[0] == f"branch main is now at new snapshot {opened(repo).lookup_branch('main')}"
    assert lines[1].startswith("20 references of 1 array: 4 manifests (")
    log = succeeds("log", repo, "--json").json
    assert [each["message"] for each in log][:2] == ["Rewrite manifests", "the secret one"]


@pytest.mark.parametrize("rule", ["time", "time=0", "=5", "time=x"])
def test_splits_that_are_none_are_refused(made: Path, rule: str) -> None:
    with pytest.raises(typer.BadParameter, match="any=1000"):
        rewrite_manifests(str(made), split=[rule])


def test_a_path_is_purged_if_that_is_wanted(repo: Path) -> None:
    refused = frazil("purge", repo, "/g/a")
    assert (refused.code, "--yes" in refused.err) == (2, True)
    planned = succeeds("purge", repo, "/g/a", "--dry-run", "--json").json
    assert (planned["nodes"], planned["chunks"], planned["commits"]) == (["/g/a"], 20, [])
    assert set(contents_of(opened(repo))) == {"/g", "/g/a"}
    lines = succeeds("purge", repo, "/g/a", "--yes").lines
    assert lines[:3] == [
        "1 node removed from 1 snapshot",
        "1 manifest and 20 chunk objects (20.0 KiB) deleted",
        f"branch main is now at new snapshot {opened(repo).lookup_branch('main')}",
    ]
    assert set(contents_of(opened(repo))) == {"/g"}
    assert list((repo / "chunks").iterdir()) == []
    assert succeeds("purge", repo, "/g/a").lines == ["no snapshot has /g/a"]


def test_messages_are_purged_if_that_is_wanted(repo: Path) -> None:
    refused = frazil("purge", repo, "--message-of", "main")
    assert (refused.code, "--yes" in refused.err) == (2, True)
    done = succeeds("purge", repo, "--message-of", "main", "--yes", "--json").json
    assert [each["kind"] for each in done["remaining"]] == ["elsewhere"]
    assert "secret" not in succeeds("log", repo).out
    assert "(redacted)" in succeeds("log", repo).out


def test_purge_needs_to_be_told_what(own_example: Example) -> None:
    for arguments in ([], ["/notes", "--message-of", "main"]):
        assert frazil("purge", own_example.path, *arguments).code == 2


@pytest.mark.parametrize(
    ("command", "shown"),
    [
        (("rewrite-manifests",), "rewriting manifests"),
        (("pack", "--small", "2K", "--size", "10K"), "packing chunks"),
        (("purge", "/g/a", "--yes"), "reading snapshots"),
    ],
    ids=lambda given: given[0] if isinstance(given, tuple) else None,
)
def test_a_bar_tells_how_far_it_is_to_whoever_looks(
    repo: Path, tmp_path: Path, command: tuple[str, ...], shown: str
) -> None:
    name, *options = command
    other = shutil.copytree(repo, tmp_path / "other")
    place = options[:1] if name == "purge" else []
    rest = options[len(place) :]
    assert shown in on_a_terminal(name, repo, *place, *rest)
    assert succeeds(name, other, *place, *rest).err == ""
