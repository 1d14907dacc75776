"""Remote stores in other processes: pickled, forked, with credentials that expire."""

import os
import pickle
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

import frazil
from frazil.objectstore.credentials import (
    S3StaticCredentials,
)
from frazil.objectstore.remote import RemoteStore
from tests.unit.objectstore.recording_server import DATA, SECRET, SMALL, RecordingServer, s3


def test_a_pickled_store_works_elsewhere(server: RecordingServer) -> None:
    store = RemoteStore(s3(server), SMALL)
    store.put("key", DATA)
    again = pickle.loads(pickle.dumps(store))
    assert bytes(again.get("key").data) == DATA
    assert again.settings == SMALL
    code = (
        "import pickle, sys; store = pickle.loads(sys.stdin.buffer.read());"
        "print(len(store.get('key').data))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], input=pickle.dumps(store), capture_output=True, check=True
    )
    assert int(done.stdout) == len(DATA)


FORKS = """
import os, sys, warnings
from frazil.errors import StorageError
from frazil.objectstore.credentials import S3AnonymousCredentials
from frazil.objectstore.remote import RemoteStore
from frazil.objectstore.remote.s3 import S3Place
warnings.simplefilter("ignore")
place = S3Place(
    bucket="bucket", prefix="root", credentials=S3AnonymousCredentials(), endpoint_url=sys.argv[1]
)
store = RemoteStore(place)
if sys.argv[2] == "used":
    store.get("key")
if (child := os.fork()) == 0:
    code = 1
    try:
        store.get("key")
        code = 0
    except StorageError as error:
        code = 42 if "forkserver" in str(error) else 2
    finally:
        os._exit(code)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), len(store.get("key").data))
"""


@pytest.mark.parametrize(("before", "expected"), [("used", 42), ("unused", 0)])
def test_a_forked_process_is_told_what_to_do(
    server: RecordingServer, before: str, expected: int
) -> None:
    """obstore alone would wait for ever."""
    server.objects["/bucket/root/key"] = DATA
    done = subprocess.run(
        [sys.executable, "-c", FORKS, server.url, before],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.stdout.split() == [str(expected), str(len(DATA))], done.stderr


def _expiring() -> S3StaticCredentials:
    """A new key each time it is called, counted in a file."""
    count = Path(os.environ["FRAZIL_TEST_COUNT"])
    count.write_text(count.read_text() + "x")
    until = datetime.now(UTC) + timedelta(hours=1)
    return S3StaticCredentials(f"id{len(count.read_text())}", SECRET, None, until)


def test_credentials_are_got_when_needed_and_travel_if_asked_to(
    server: RecordingServer, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    count = tmp_path / "count"
    count.write_text("")
    monkeypatch.setenv("FRAZIL_TEST_COUNT", str(count))

    def key_used(credentials: frazil.S3Credentials) -> str:
        store = pickle.loads(pickle.dumps(RemoteStore(s3(server, credentials=credentials))))
        store.put("key", b"x")
        store.put("key", b"x")
        return server.last("PUT").headers["authorization"].split("Credential=")[1].split("/")[0]

    assert key_used(frazil.s3_refreshable_credentials(_expiring)) == "id1"
    scattered = frazil.s3_refreshable_credentials(_expiring, scatter_initial_credentials=True)
    assert count.read_text() == "xx"
    assert key_used(scattered) == key_used(scattered) == "id2"
    assert count.read_text() == "xx"
