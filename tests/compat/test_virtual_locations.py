"""Locations and containers: what is taken, what is stored, what is refused, by both alike."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.compat.virtual_sides import OURS, THEIRS, Outcome, Side, make_array, outcome

CLOSED = "http://127.0.0.1:9/"  # where nobody listens

LOCATIONS = [
    "s3://b/x", "S3://b/x", "s3://b", "s3://", "s3:///x", "s3://B/x", "s3://b//x", "s3://b/./x",
    "s3://b/../x", "s3://b/x?q=1", "s3://b/x#f", "s3://u:p@b/x", "s3://b/a b", "s3://b/a%20b",
    "s3://b/a%2Fb", "s3://b/a%zz", "s3://b/ü", "s3://b/sp%20ace/x", "s3://b:99/x", "s3:/b/x",
    "s3:b/x", "{root}/a.bin", "{loud}/a.bin", "{short}/a.bin", "file://localhost{path}/a.bin",
    "file://host{path}/a.bin", "{root}/../files/a.bin", "{root}/../../etc/passwd",
    "{root}/%2e%2e/x", "{root}/%2E%2E%2Fx", "{root}/..%2fx", "{root}//a.bin", "{root}/./a.bin",
    "{root}/sub/b c.bin", "{root}/sub/b%20c.bin", "{root}/a.bin?q", "{root}/a.bin#f", "{root}/",
    "{root}", "file:tmp", "file://", "file:///", "{root}/ü", "{root}/a\\b", "{root}/a\tb",
    " {root}/a.bin ", "file:///C:/x", '{root}/a"b<>`{{}}|^', "{root}/a%zz", "{root}/a.bin/..",
    "vcc://loc/a.bin", "vcc://loc/", "vcc://loc", "vcc://", "vcc:///x", "vcc://nope/x",
    "VCC://loc/a.bin", "vcc://loc/../x", "vcc://loc/a b", "vcc://loc//x", "vcc://loc/?x",
    "vcc://web/../../x", "vcc:loc/x", "gcs://b/x", "gcs://b/a//b", "gcs://b/a/../b",
    "gcs://b/a/./b", "gcs://b/", "gcs://b", "gs://b/x", CLOSED + "a//b", CLOSED + "x",
    CLOSED.replace("http", "HTTP") + "x", "http://other/x", "foo/bar", "/foo/bar", "", "://x",
    "1s3://b/x", "s_3://b/x", "mailto:x", "http:x", "az://c/x", "s3://b/x\n",
]  # fmt: skip


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("virtual") / "files"
    (folder / "sub").mkdir(parents=True)
    (folder / "a.bin").write_bytes(bytes(range(100)))
    (folder / "sub" / "b c.bin").write_bytes(bytes(range(100, 200)))
    return folder


@pytest.fixture(scope="module")
def sessions(files: Path) -> dict[str, Any]:
    """By side, a session with an array."""
    prefix = f"file://{files}/"
    containers = {
        prefix: "loc", "s3://b/": "bk", "s3://b/sp ace/": None, "gcs://b/": None, CLOSED: "web",
    }  # fmt: skip
    found = {}
    for side in (OURS, THEIRS):
        storage = side.module.in_memory_storage()
        session = side.create(storage, containers, prefix, CLOSED).writable_session("main")
        make_array(session)
        found[side.name] = session
    return found


def written(text: str, files: Path) -> str:
    root = f"file://{files}"
    return text.format(
        root=root, loud=root.replace("file", "FILE"), short=f"file:{files}", path=files
    )


def tried(session: Any, side: Side, location: str) -> dict[str, Outcome]:
    store, spec = session.store, side.module.VirtualChunkSpec([0], location, 0, 10)

    def set_one(*, checked: bool) -> object:
        store.set_virtual_ref("a/c/0", location, offset=0, length=10, validate_container=checked)
        return session.all_virtual_chunk_locations()

    array = make_array(session)
    found = {
        "checked": outcome(lambda: set_one(checked=True)),
        "in bulk": outcome(lambda: store.set_virtual_refs("a", [spec])),
        "unchecked": outcome(lambda: set_one(checked=False)),
    }
    if found["unchecked"][0] == "value":
        found["read"] = outcome(lambda: np.asarray(array[:10]).tolist())
    return found


@pytest.mark.parametrize("text", LOCATIONS)
def test_a_location_means_the_same_to_both(
    text: str, files: Path, sessions: dict[str, Any]
) -> None:
    location = written(text, files)
    ours, theirs = (tried(sessions[side.name], side, location) for side in (OURS, THEIRS))
    assert ours == theirs


CONTAINERS = [
    "file:///tmp/x", "file:///tmp/x/", "file:///", "file://", "file://host/x/", "file:/tmp/x/",
    "FILE:///tmp/x/", "s3://b/", "s3://b", "s3:///", "s3://", "S3://b/", "s3://b/p//", "gs://b/",
    "gcs://b/", "az://c/", "abfs://c/", "abfss://c/", "http://h/", "https://h:80/x/", "http:///",
    "foo://b/", "b/", "", "/", "tigris://b/", "vcc://x/",
]  # fmt: skip


@pytest.mark.parametrize("kind", ["s3", "gcs", "az", "http", "file"])
def test_containers_are_refused_by_both_alike(kind: str) -> None:
    for prefix in CONTAINERS:
        found = []
        for side in (OURS, THEIRS):
            container = side.container(prefix, side.store(f"{kind}:"))
            config = side.module.RepositoryConfig()
            work = lambda: config.set_virtual_chunk_container(container)  # noqa: B023, E731 -- at once
            found.append(outcome(work)[0] == "value")
        assert found[0] == found[1], prefix


@pytest.mark.parametrize("name", ["", "a/b", "a", " ", "a:b", "ü", "a?b"])
def test_names_of_containers_are_refused_by_both_alike(name: str) -> None:
    found = []
    for side in (OURS, THEIRS):
        try:
            side.config({"s3://b/": name})
        except ValueError as error:
            found.append(str(error))
        else:
            found.append("fine")
    assert found[0] == found[1]
