"""Programs that the explorer writes open the repository that it shows, and have no secrets."""

from pathlib import Path
from typing import Any

import pytest

import frazil
from frazil.objectstore.protocol import ObjectStore
from frazil.spark.runtime.storage_options import store_of, with_prefix
from frazil.web.locations import UNKNOWN, location_facts
from frazil.web.server import Server
from tests.web.made import Client, Made

SECRETS = ("AKIASECRET", "hushhush", "sesame")
KEYS: dict[str, Any] = {"access_key_id": SECRETS[0], "secret_access_key": SECRETS[1]}


def remade(python: object) -> ObjectStore:
    """The store of a program's first line, without asking a server whether it is there."""
    storage = str(python).removeprefix("frazil.Repository.open(").removesuffix(")")
    found: frazil.Storage = eval(storage, {"frazil": frazil})  # noqa: S307 -- what a user would run
    return found.store


PLACES = {
    "s3": frazil.s3_storage(bucket="b", prefix="a/b", region="eu-west-1", **KEYS),
    "anonymous": frazil.s3_storage(bucket="b", prefix="p", region="eu-west-1", anonymous=True),
    "minio": frazil.s3_storage(
        bucket="b",
        prefix="it's",
        endpoint_url=f"http://me:{SECRETS[2]}@127.0.0.1:9000",
        allow_http=True,
        force_path_style=True,
        from_env=True,
    ),
    "root of a bucket": frazil.s3_storage(bucket="b", prefix=None, anonymous=True),
    "r2": frazil.r2_storage(bucket="b", prefix="p", account_id="acc", **KEYS),
    "tigris": frazil.tigris_storage(bucket="b", prefix="p", region="fra", **KEYS),
    "weak tigris": frazil.tigris_storage(
        bucket="b", prefix="p", anonymous=True, use_weak_consistency=True
    ),
    "gcs": frazil.gcs_storage(bucket="b", prefix="p", bearer_token=SECRETS[1]),
    "azure": frazil.azure_storage(
        account="acc", container="c", prefix="p", sas_token=f"sig={SECRETS[1]}"
    ),
    "http": frazil.http_storage(f"https://me:{SECRETS[2]}@example.org/a/b?token={SECRETS[1]}"),
}


@pytest.mark.parametrize("kind", PLACES)
def test_buckets_are_named_in_full_and_without_secrets(kind: str) -> None:
    given = PLACES[kind].store
    facts = location_facts(given)
    assert not [secret for secret in SECRETS if secret in str(facts)]
    options = facts["storage"]
    assert isinstance(options, dict)
    by_spark = store_of({"path": str(facts["path"]), **with_prefix(options)})
    for store in (remade(facts["python"]), by_spark):
        own, its = given.place, store.place
        for name in ("bucket", "container", "account", "prefix", "region", "force_path_style"):
            assert getattr(its, name, None) == getattr(own, name, None), name
        endpoint = getattr(own, "endpoint_url", None)
        if endpoint is not None:
            assert getattr(its, "endpoint_url", None) == endpoint.replace(f"me:{SECRETS[2]}@", "")


def test_a_folder_is_absolute_and_memory_is_left_open(
    made: Made, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(made.path.parent)
    with Server(frazil.Repository.open(frazil.local_filesystem_storage(made.path.name))) as running:
        location = Client.of(running).json("repository")["location"]
    monkeypatch.chdir(tmp_path)
    repo = eval(location["python"], {"frazil": frazil})  # noqa: S307 -- as above
    assert repo.lookup_branch("main") == str(made.tip)
    assert location["path"] == str(made.path)
    memory = location_facts(frazil.in_memory_storage().store)
    assert UNKNOWN in str(memory["python"])


def test_a_bundle_is_opened_as_one(made: Made, tmp_path: Path) -> None:
    repo = frazil.Repository.open(frazil.local_filesystem_storage(str(made.path)))
    repo.export_bundle(tmp_path / "it's.zip")
    with Server(frazil.Repository.open_bundle(tmp_path / "it's.zip")) as running:
        location = Client.of(running).json("repository")["location"]
    opened = eval(location["python"], {"frazil": frazil})  # noqa: S307 -- as above
    assert opened.lookup_branch("main") == str(made.tip)
