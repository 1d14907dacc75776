"""Repositories to be looked at, and a client that looks."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from http.client import HTTPConnection
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import numpy as np
import numpy.typing as npt
import zarr

import frazil
from frazil.engine.repository import Repository
from frazil.engine.session.session import Session
from frazil.format.chunk_refs import ChunkRefs, Inline, Native, Payload, Virtual
from frazil.ids import SnapshotId
from frazil.objectstore.local import LocalStore
from frazil.objectstore.memory import MemoryStore
from frazil.paths import ROOT, NodePath
from frazil.web.server import Server
from tests.unit.spec.written import GROUP

TEMPERATURE = "/climate/temperature"
KINDS = "/kinds"
SCRIPT = "<script>alert('attribute')</script>"
HOSTILE = (
    "<img src=x onerror=alert(1)>",
    "'\"><svg onload=alert(2)>",
    "\u202efdp.exe \u05e2\u05d1\u05e8\u05d9\u05ea",  # right to left, and an override
    "\U0001f9ca\u2744\ufe0f frazil",
    "long-" + "x" * 1500,
)


@dataclass(frozen=True, slots=True)
class Client:
    host: str
    port: int

    @classmethod
    def of(cls, server: Server) -> "Client":
        return cls(server.host, server.port)

    def ask(
        self, target: str, *, method: str = "GET", headers: Mapping[str, str] | None = None
    ) -> tuple[int, dict[str, str], bytes]:
        """Status, headers by lower case name, body; `target` is sent as it is."""
        connection = HTTPConnection(self.host, self.port, timeout=300)  # a first query starts Spark
        try:
            connection.request(method, target, headers=dict(headers or {}))
            answer = connection.getresponse()
            found = {name.lower(): value for name, value in answer.getheaders()}
            return answer.status, found, answer.read()
        finally:
            connection.close()

    def json(self, question: str, /, **parameters: object) -> Any:
        status, _, body = self.ask(target(question, **parameters))
        assert status == 200, (question, parameters, body)
        return json.loads(body)

    def png(self, question: str, /, **parameters: object) -> bytes:
        status, headers, body = self.ask(target(question, **parameters))
        assert (status, headers["content-type"]) == (200, "image/png"), body
        return body

    def refusal(self, question: str, /, **parameters: object) -> tuple[int, str]:
        """Status and message of what does not work."""
        status, _, body = self.ask(target(question, **parameters))
        assert status >= 400, body
        return status, json.loads(body)["error"]


def target(question: str, /, **parameters: object) -> str:
    """`start` stands for `from`, which is a keyword."""
    given = {"from" if name == "start" else name: value for name, value in parameters.items()}
    return f"/api/{question}?{urlencode(given)}"


@dataclass(frozen=True, slots=True)
class Made:
    """What was made, to compare with what is shown."""

    path: Path
    first: SnapshotId  # the array's first ten times
    second: SnapshotId  # another one of them written again
    tip: SnapshotId
    side: SnapshotId  # of branch `side`
    detached: SnapshotId

    def open(self) -> Repository:
        return Repository.open(LocalStore(self.path))


def field(time: int) -> npt.NDArray[np.float32]:
    """(60, 120), different at every time."""
    down, across = np.mgrid[0:60, 0:120]
    values: npt.NDArray[np.float64] = 280 + time + 10 * np.sin(down / 9) * np.cos(across / 11)
    return values.astype(np.float32)


def make_climate(session: Any) -> None:
    """An array of 12 times, two of which are never written; by frazil or by the reference."""
    root = zarr.group(session.store)
    group = root.create_group("climate", attributes={"title": "A made-up climate", "<b>": SCRIPT})
    array = group.create_array(
        "temperature",
        shape=(12, 60, 120),
        chunks=(1, 30, 60),
        dtype="f4",
        dimension_names=["time", "latitude", "longitude"],
        fill_value=np.nan,
        attributes={"units": "K", "valid_range": [180, 340], "big": 2**60},
    )
    for time in range(10):
        array[time] = field(time)
    hours = group.create_array(
        "time",
        shape=(12,),
        chunks=(12,),
        dtype="i4",
        dimension_names=["time"],
        attributes={"units": "hours since 2024-01-01"},
    )
    hours[:] = np.arange(12) * 6


def make(path: Path) -> Made:
    repo = frazil.Repository.create(frazil.local_filesystem_storage(str(path)))
    session = repo.writable_session("main")
    make_climate(session)
    first = session.commit("Ten times", metadata={"author": SCRIPT, "count": 10})
    repo.create_tag("v1", first)
    session = repo.writable_session("main")
    zarr.open_array(session.store, path=TEMPERATURE)[3] = field(30)
    second = session.commit("Time 3 again\n\nIt was wrong before.")
    repo.create_branch("side", first)
    session = repo.writable_session("side")
    zarr.open_array(session.store, path=TEMPERATURE)[0, :30, :60] = 1
    side = session.commit("On another branch")
    engine = Repository.open(LocalStore(path))
    tip = _more(engine)
    again = repo.writable_session("main")
    zarr.open_array(again.store, path=TEMPERATURE)[1] = 0
    detached = again.flush("Nobody leads here")
    found = [SnapshotId.parse(each) for each in (first, second, str(tip), side, detached)]
    return Made(path, *found)


def _more(repository: Repository) -> SnapshotId:
    """Chunks of all kinds, and names that are up to no good."""
    session = repository.writable_session("main")
    _add_kinds(session)
    for name in HOSTILE:
        session.set_node(NodePath("/hostile").child(name), document((4,), (2,), name=name))
    return session.commit(f"All kinds {SCRIPT}")


def _add_kinds(session: Session) -> None:
    """Seven chunks in a row: inline, native, two in one object, virtual, two missing."""
    session.set_node(NodePath(KINDS), document((7, 100), (1, 100)))
    writer = session.chunk_writer()
    whole, packed = (writer.put_chunk(_values(each, count)) for each, count in ((1, 1), (2, 2)))
    assert isinstance(whole, Native)
    assert isinstance(packed, Native)
    payloads: list[Payload] = [
        Inline(_values(0, 1)),
        whole,
        Native(packed.chunk_id, 0, 800),
        Native(packed.chunk_id, 800, 800),
        Virtual("s3://elsewhere/file.nc", 4096, 800),
    ]
    index = np.array([[row, 0] for row in range(5)])
    session.set_chunk_refs(NodePath(KINDS), ChunkRefs.from_payloads(index, payloads))


def _values(start: int, chunks: int) -> bytes:
    return np.arange(start * 100, (start + chunks) * 100, dtype="<f8").tobytes()


def document(shape: tuple[int, ...], chunks: tuple[int, ...], **attributes: object) -> bytes:
    """The zarr.json of an array of float64 without compression."""
    return json.dumps(
        {
            "zarr_format": 3,
            "node_type": "array",
            "shape": shape,
            "data_type": "float64",
            "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": chunks}},
            "chunk_key_encoding": {"name": "default"},
            "fill_value": 0.0,
            "codecs": [{"name": "bytes", "configuration": {"endian": "little"}}],
            "attributes": attributes,
        }
    ).encode()


def make_moved(*, edit_first: bool) -> tuple[Repository, SnapshotId, SnapshotId]:
    """An array that grew and went from /a to /b; the snapshots before and after."""
    repository = Repository.create(MemoryStore())
    session = repository.writable_session("main")
    session.set_node(ROOT, GROUP)
    session.set_node(NodePath("/a"), document((12,), (1,)))
    before = after = session.commit("array")
    for edits in (edit_first, not edit_first):
        if edits:
            session = repository.writable_session("main")
            path = NodePath("/a" if edit_first else "/b")
            session.set_node(path, document((13,), (1,)))
        else:
            session = repository.rearrange_session("main")
            session.move(NodePath("/a"), NodePath("/b"))
        after = session.commit("edited" if edits else "moved")
    return repository, before, after
