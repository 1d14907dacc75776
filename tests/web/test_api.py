"""What the explorer's server says, compared with what the engine knows."""

import io
from pathlib import Path

import numpy as np
import pytest
import zarr
from PIL import Image

import frazil
from frazil.engine.refs.version import Branch, Exactly
from frazil.engine.repository import Repository
from frazil.objectstore.local import LocalStore
from frazil.paths import NodePath
from frazil.web.server import PAGES, Server
from tests.conformance.generations import put, repository_files
from tests.web.made import (
    HOSTILE,
    KINDS,
    TEMPERATURE,
    Client,
    Made,
    document,
    field,
    make_moved,
)


def picture(png: bytes) -> np.ndarray:
    """(height, width, 4), decoded by somebody else's decoder."""
    return np.asarray(Image.open(io.BytesIO(png)).convert("RGBA"))


def test_the_repository_has_its_refs(client: Client, made: Made) -> None:
    found = client.json("repository")
    repository = made.open()
    assert dict(zip(*found["branches"].values(), strict=True)) == {
        name: str(snapshot) for name, snapshot in repository.branches().items()
    }
    assert found["tags"] == {"name": ["v1"], "id": [str(made.first)]}
    assert (found["name"], found["spec_version"], found["status"]) == ("made up", 2, "online")


def test_every_snapshot_is_in_the_history_once(client: Client, made: Made) -> None:
    page = client.json("commits")
    info = made.open().repo_info()
    assert page["total"] == len(page["id"]) == len(info.snapshots)
    assert set(page["id"]) == {str(info.snapshots.id(row)) for row in range(len(info.snapshots))}
    pairs = zip(page["id"], page["detached"], strict=True)
    assert [each for each, alone in pairs if alone] == [str(made.detached)]
    named = dict(zip(page["id"], page["branches"], strict=True))
    assert (named[str(made.tip)], named[str(made.side)]) == (["main"], ["side"])


def test_a_commit_is_drawn_above_its_parent_and_lines_lead_there(client: Client) -> None:
    page = client.json("commits")
    place = {each: at for at, each in enumerate(page["id"])}
    for at, parent in enumerate(page["parent"]):
        if parent is None:
            continue
        assert place[parent] > at
        for between in range(at + 1, place[parent] + 1):
            line = page["line"][at]
            assert any(part[1] == line and part[2] for part in page["segments"][between])


def test_the_history_comes_in_pages(client: Client) -> None:
    whole = client.json("commits")
    parts = [client.json("commits", offset=at, limit=2) for at in range(0, whole["total"], 2)]
    for column in ("id", "message", "lane", "segments"):
        assert [each for part in parts for each in part[column]] == whole[column]


def test_a_commit_is_told_in_full(client: Client, made: Made) -> None:
    found = client.json("commit", at=str(made.first))
    record = made.open().lookup_snapshot(made.first)
    assert (found["message"], found["metadata"]) == (record.message, record.metadata)
    assert found["parent"] == str(record.parent_id)
    assert found["tags"] == ["v1"]
    assert found["changes"]["updated_chunks"] == 41
    assert client.json("commits")["id"][found["place"]] == str(made.first)


def test_children_are_those_of_the_session(client: Client, made: Made) -> None:
    session = made.open().readonly_session(Branch("main"))
    for path in ("/", "/climate", "/hostile"):
        page = client.json("children", path=path)
        assert sorted(page["name"]) == session.child_names(NodePath(path))
    shown = client.json("children", path="/climate")
    assert (shown["kind"], shown["shape"]) == (["array"] * 2, [[12, 60, 120], [12]])
    assert set(client.json("children", path="/hostile")["name"]) == set(HOSTILE)


def test_children_come_in_pages(client: Client) -> None:
    whole = client.json("children", path="/hostile")
    parts = [client.json("children", path="/hostile", offset=at, limit=2) for at in (0, 2, 4)]
    assert [name for part in parts for name in part["name"]] == whole["name"]


def test_an_array_has_its_metadata(client: Client) -> None:
    found = client.json("node", path=TEMPERATURE)
    assert (found["shape"], found["grid"]) == ([12, 60, 120], [12, 2, 2])
    assert found["dimension_names"] == ["time", "latitude", "longitude"]
    assert found["attributes"]["units"] == "K"
    assert found["attributes"]["big"] == str(2**60)  # JavaScript would round it


def test_chunks_are_counted_by_kind(client: Client) -> None:
    found = client.json("chunks", path=KINDS)
    assert found["counts"] == {"missing": 2, "inline": 1, "native": 1, "packed": 2, "virtual": 1}
    assert found["bytes"] == {"inline": 800, "native": 800, "packed": 1600, "virtual": 800}
    assert client.json("chunks", path=TEMPERATURE)["counts"]["missing"] == 8


@pytest.mark.parametrize("time", [0, 3, 9])
def test_a_preview_has_the_values_of_the_slice(client: Client, time: int) -> None:
    wanted = field(30 if time == 3 else time)
    asked = {"path": TEMPERATURE, "slice_at": f"{time},*,*"}
    found = client.json("preview", **asked)
    assert (found["height"], found["width"], found["missing"]) == (60, 120, 0)
    assert found["min"] == pytest.approx(wanted.min())
    assert found["max"] == pytest.approx(wanted.max())
    assert found["mean"] == pytest.approx(wanted.astype(float).mean())
    pixels = picture(client.png("preview.png", **asked, scale="grey")).astype(float)
    share = (wanted - wanted.min()) / (wanted.max() - wanted.min())
    assert np.abs(pixels[:, :, 0] - share * 255).max() <= 1
    assert (pixels[:, :, 3] == 255).all()


def test_what_was_never_written_is_transparent(client: Client) -> None:
    found = client.json("preview", path=TEMPERATURE, slice_at="11,*,*")
    assert (found["valid"], found["missing"], found["mean"]) == (0, 7200, None)
    assert not picture(client.png("preview.png", path=TEMPERATURE, slice_at="11,*,*")).any()


def test_a_preview_is_turned_as_asked(client: Client) -> None:
    found = client.json("preview", path=TEMPERATURE, axes="2,0", slice_at="*,7,*")
    assert (found["height"], found["width"], found["at"][1]) == (120, 12, 7)
    pixels = picture(client.png("preview.png", path=TEMPERATURE, axes="2,0", slice_at="*,7,*"))
    assert pixels[:, :10, 3].all()
    assert not pixels[:, 10:, 3].any()


def test_a_virtual_chunk_that_may_not_be_read_is_an_answer(client: Client) -> None:
    assert "s3://elsewhere/file.nc" in client.json("preview", path=KINDS)["problem"]
    assert client.refusal("preview.png", path=KINDS)[0] == 422


def test_the_map_of_kinds_has_a_cell_for_every_chunk(client: Client) -> None:
    found = client.json("chunk-map", path=KINDS, map_axes="0,1")
    assert (found["height"], found["width"]) == (7, 1)
    colours = {each["label"]: each["colour"] for each in found["legend"]}
    pixels = picture(client.png("chunk-map.png", path=KINDS, map_axes="0,1"))[:, 0]
    shown = ["#" + bytes(pixel[:3].tolist()).hex() if pixel[3] else None for pixel in pixels]
    kinds = ["inline", "native", "packed", "packed", "virtual", "missing", "missing"]
    assert shown == [colours[kind] for kind in kinds]


def test_the_map_of_commits_names_who_wrote_what(client: Client, made: Made) -> None:
    legend = client.json("chunk-map", path=TEMPERATURE, by="commit")["legend"]
    assert [(each["id"], each["chunks"]) for each in legend] == [
        (str(made.second), 4),
        (str(made.first), 36),
    ]
    for index, writer in (("3,0,1", made.second), ("4,1,1", made.first)):
        found = client.json("chunk", path=TEMPERATURE, index=index)
        assert found["commit"] == str(writer)
    assert client.json("chunk", path=TEMPERATURE, index="11,0,0")["kind"] == "missing"


def test_the_difference_is_that_of_the_engine(client: Client, made: Made) -> None:
    found = client.json("diff", start="tag:v1", to="branch:main")
    (side,) = found["sides"]
    wanted = made.open().diff(made.first, made.tip)
    assert side["new_arrays"] == sorted(wanted.new_arrays.texts)
    assert dict(zip(*side["updated_chunks"].values(), strict=True)) == {
        path.text: len(index) for path, index in wanted.updated_chunks.items()
    }


def test_branches_that_parted_are_compared_with_where_they_did(client: Client, made: Made) -> None:
    found = client.json("diff", start="branch:side", to="branch:main")
    assert found["common"] == str(made.first)
    assert [side["to"] for side in found["sides"]] == [str(made.side), str(made.tip)]
    assert client.json("diff", start="main", to="main")["sides"] == []
    backwards = client.json("diff", start="main", to="v1")["sides"]
    assert [(side["from"], side["to"]) for side in backwards] == [(str(made.first), str(made.tip))]


def test_branches_that_were_merged_are_compared(tmp_path: Path) -> None:
    repo = frazil.Repository.create(frazil.local_filesystem_storage(str(tmp_path)))
    with repo.transaction("main", message="first") as store:
        zarr.create_array(store, name="v", data=np.zeros((4, 4)), chunks=(1, 4))
    repo.create_branch("side", repo.lookup_branch("main"))
    edits = (("main", 0), ("side", 1), ("", 0), ("main", 2), ("side", 3))
    for branch, row in edits:
        if not branch:
            repo.merge("side", into="main")
            continue
        with repo.transaction(branch, message=f"row {row}") as store:
            zarr.open_array(store, path="v", mode="r+")[row] = row + 1
    with Server(repo) as running:
        client = Client.of(running)
        sides = client.json("diff", start="side", to="main")["sides"]
        assert [side["updated_chunks"] for side in sides] == [
            {"path": ["/v"], "chunks": [1]},
            {"path": ["/v"], "chunks": [2]},
        ]
        assert len(client.json("diff", start="main", to="side")["sides"]) == 2
        found = client.json("preview", start="side", at="main", path="/v", scale="grey")
        assert (found["min"], found["max"], found["changed"]) == (-4, 3, 12)


def test_cells_that_stand_for_no_chunk_are_counted(client: Client) -> None:
    found = client.json("chunk-map", path=KINDS, map_axes="wrapped")
    assert found["rows"] * found["columns"] - found["padding"] == 7
    assert client.json("chunk-map", path=KINDS, map_axes="0,1")["padding"] == 0


def test_errors_are_pages_for_people_and_json_for_programs(client: Client) -> None:
    accept = {"Accept": "text/html,application/xhtml+xml"}
    for target, asked, kind in (
        ("/nowhere<b>", accept, "text/html"),
        ("/nowhere", {}, "application/json"),
        ("/api/nowhere", accept, "application/json"),
    ):
        status, headers, body = client.ask(target.replace("<", "%3C"), headers=asked)
        assert (status, headers["content-type"].split(";")[0]) == (404, kind)
        assert b"<b>" not in body
    status, headers, _ = client.ask("/", headers={**accept, "Host": "evil.example"})
    assert (status, headers["content-type"]) == (421, "text/html; charset=utf-8")


def test_changed_chunks_are_listed_and_mapped(client: Client, made: Made) -> None:
    asked = {"start": str(made.first), "to": str(made.second), "path": TEMPERATURE}
    found = client.json("diff/chunks", **asked)
    assert found["index"] == [[3, row, column] for row in (0, 1) for column in (0, 1)]
    assert found["counts"] == {"added": 0, "changed": 4, "removed": 0}
    asked = {"start": str(made.first), "at": str(made.second), "path": TEMPERATURE, "by": "change"}
    pixels = picture(client.png("chunk-map.png", **asked, map_axes="0,1"))
    assert pixels[:, :, 3].any(axis=1).nonzero()[0].tolist() == [3]


@pytest.mark.parametrize("edit_first", [False, True])
def test_metadata_of_what_was_moved_and_edited_is_compared_with_what_it_was(
    edit_first: bool,  # noqa: FBT001 -- a parameter of the test
) -> None:
    repository, before, after = make_moved(edit_first=edit_first)
    with Server(repository, name="moved") as server:
        client = Client.of(server)
        versions = {"start": str(before), "to": str(after)}
        (side,) = client.json("diff", **versions)["sides"]
        assert (side["updated_arrays"], side["moved"]) == (["/b"], [["/a", "/b"]])
        found = client.json("diff/metadata", path="/b", **versions)
        assert client.refusal("diff/metadata", path="/nope", **versions)[0] == 404
    assert found == {
        "before": {"path": "/a", "document": document((12,), (1,)).decode()},
        "after": {"path": "/b", "document": document((13,), (1,)).decode()},
    }


def test_operations_are_those_of_the_log(client: Client, made: Made) -> None:
    page = client.json("operations")
    updates = list(made.open().ops_log())
    assert page["at_us"] == [update.updated_at_us for update in updates]
    assert {"new commit", "tag created", "branch created", "new detached snapshot"} <= set(
        page["operation"]
    )
    parts = [client.json("operations", offset=at, limit=3) for at in range(0, len(updates), 3)]
    assert [each for part in parts for each in part["at_us"]] == page["at_us"]
    assert [part["more"] for part in parts] == [True] * (len(parts) - 1) + [False]


def test_storage_is_counted_when_asked_for(client: Client) -> None:
    assert "counted" not in client.json("storage")
    found = client.json("storage", count="all")["counted"]
    assert found["total"]["virtual_bytes"] == 800
    assert {owner["name"] for owner in found["refs"]} == {"main", "side", "v1"}


def test_search_finds_paths_commits_and_refs(client: Client, made: Made) -> None:
    assert client.json("search", q="TEMPER")["paths"] == [TEMPERATURE]
    assert [each["id"] for each in client.json("search", q="time 3")["commits"]] == [
        str(made.second)
    ]
    assert [each["name"] for each in client.json("search", q="sid")["refs"]] == ["side"]
    assert client.json("search", q=str(made.tip)[:8])["commits"][0]["id"] == str(made.tip)
    assert client.json("search", q="onerror")["paths"] == ["/hostile/" + HOSTILE[0]]


def test_every_version_can_be_named(client: Client, made: Made) -> None:
    for at, wanted in (("tag:v1", made.first), ("v1", made.first), ("side", made.side)):
        assert client.json("node", at=at)["snapshot"] == str(wanted)
    assert client.json("node", at=str(made.detached))["snapshot"] == str(made.detached)


@pytest.mark.parametrize(
    ("path", "asked", "status"),
    [
        ("node", {"path": "/nowhere"}, 404),
        ("node", {"path": "../../etc/passwd"}, 400),
        ("node", {"at": "branch:nonsense"}, 404),
        ("children", {"path": "/nowhere"}, 404),
        ("commit", {"at": "0" * 20}, 404),
        ("commits", {"offset": "-1"}, 400),
        ("chunk", {"path": TEMPERATURE, "index": "99,0,0"}, 400),
        ("chunk", {"path": TEMPERATURE, "index": "0"}, 400),
        ("chunks", {"path": "/climate"}, 400),
        ("preview", {"path": TEMPERATURE, "axes": "0,0"}, 400),
        ("preview", {"path": TEMPERATURE, "axes": "0,9"}, 400),
        ("preview", {"path": TEMPERATURE, "slice_at": "1"}, 400),
        ("preview.png", {"path": TEMPERATURE, "scale": "none"}, 400),
        ("chunk-map", {"path": TEMPERATURE, "window": "1,2"}, 400),
        ("diff", {"to": "main"}, 400),
        ("nonsense", {}, 404),
    ],
)
def test_what_makes_no_sense_is_refused(
    client: Client, path: str, asked: dict[str, str], status: int
) -> None:
    assert client.refusal(path, **asked)[0] == status


def test_a_commit_made_meanwhile_is_shown(tmp_path: Path) -> None:
    repository = Repository.create(LocalStore(tmp_path))
    with Server(repository) as running:
        client = Client.of(running)
        assert client.json("commits")["total"] == 1
        session = repository.writable_session("main")
        session.set_node(NodePath("/new"), document((), ()))
        new = session.commit("meanwhile")
        assert client.json("commits")["id"][0] == str(new)
        assert client.json("children")["name"] == ["new"]


def test_scalars_texts_and_times_are_shown_as_values(tmp_path: Path) -> None:
    repo = frazil.Repository.create(frazil.local_filesystem_storage(str(tmp_path)))
    session = repo.writable_session("main")
    root = zarr.group(session.store)
    root.create_array("scalar", shape=(), dtype="i4")[...] = 7
    root.create_array("flags", shape=(3,), dtype="bool")[:] = [True, False, True]
    days = root.create_array("days", shape=(2,), dtype="M8[D]")
    days[:] = np.array(["2024-01-01", "2024-02-29"], "M8[D]")
    root.create_array("words", shape=(2,), dtype="U9")[:] = ["<b>", "two"]
    root.create_array("empty", shape=(0, 5), chunks=(1, 5), dtype="f4")
    root.create_array("wave", shape=(2,), dtype="c8")[:] = [3 + 4j, 0]
    session.commit("values")
    with Server(Repository.open(LocalStore(tmp_path))) as running:
        client = Client.of(running)
        assert client.json("preview", path="/scalar")["texts"] == ["7"]
        assert client.json("preview", path="/flags")["line"] == [1, 0, 1]
        assert client.json("preview", path="/days")["texts"] == ["2024-01-01", "2024-02-29"]
        words = client.json("preview", path="/words")
        assert (words["is_number"], words["texts"]) == (False, ["<b>", "two"])
        assert client.json("preview", path="/wave")["max"] == 5
        empty = client.json("preview", path="/empty")
        assert (empty["valid"], empty["missing"]) == (0, 0)
        assert client.json("chunk-map", path="/empty")["rows"] == 0
        client.png("chunk-map.png", path="/empty")


@pytest.mark.parametrize("name", ["A2k-6d9c9dfb-20250106", "V1pre2-0458b9fe-20250219"])
def test_older_generations_are_shown_as_well(name: str, tmp_path: Path) -> None:
    put(repository_files(name), tmp_path)
    with Server(Repository.open(LocalStore(tmp_path))) as running:
        client = Client.of(running)
        page = client.json("commits")
        assert page["total"] == len(page["id"]) == 6
        assert client.json("operations")["available"] is False
        assert client.json("diff", start=page["id"][-1], to="main")["sides"]
        path = "/group1/big_chunks"
        counts = client.json("chunks", path=path)["counts"]
        legend = client.json("chunk-map", path=path, by="commit")["legend"]
        assert sum(counts.values()) - counts["missing"] == sum(each["chunks"] for each in legend)


def test_pages_are_there(client: Client) -> None:
    for page in PAGES:
        status, headers, body = client.ask(page)
        assert (status, headers["content-type"]) == (200, "text/html; charset=utf-8")
        assert b"/static/main.js" in body


def test_a_detached_snapshot_has_its_own_values(client: Client, made: Made) -> None:
    session = made.open().readonly_session(Exactly(made.detached))
    assert session.node(NodePath(TEMPERATURE)).is_array
    asked = {"path": TEMPERATURE, "slice_at": "1,*,*", "at": str(made.detached)}
    assert client.json("preview", **asked)["max"] == 0
