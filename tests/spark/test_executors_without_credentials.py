"""An executor whose environment has no credentials where the driver's has: it is told clearly.

What it is given, as text, is opened here as it would be there; that a task's error fails the job
and nothing is committed is in test_ingest.py.
"""

import pytest

import frazil
from frazil.errors import StorageError
from frazil.spark.place import format_place, open_place
from tests.servers.s3 import S3Server


def test_an_executor_without_credentials_says_so_and_writes_nothing(
    s3_server: S3Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    prefix = s3_server.new_prefix()
    repo = frazil.Repository.create(s3_server.storage(frazil, prefix))
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", s3_server.access_key)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", s3_server.secret_key)
    given = s3_server.arguments(prefix)
    del given["access_key_id"], given["secret_access_key"]
    storage = frazil.s3_storage(**given, from_env=True)
    place = format_place(storage.store)
    frazil.Repository.open(storage)  # the driver can
    before = {info.key for info in repo.storage.store.list()}

    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")
    with pytest.raises(StorageError, match="there are no credentials for S3 in the environment"):
        open_place(place).put("chunks/00000000000000000000", b"of a task")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", s3_server.access_key)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "wrong")
    with pytest.raises(StorageError, match="access was refused, check the credentials"):
        open_place(place).put("chunks/00000000000000000000", b"of a task")
    assert {info.key for info in repo.storage.store.list()} == before
