"""Settings of storage: given when opening, saved with the repository, or made for another place."""

from pathlib import Path

import icechunk

import frazil
from frazil.objectstore import RemoteSettings
from frazil.objectstore.remote import RemoteStore
from tests.servers.s3 import S3Server


def settings_of(repository: frazil.Repository) -> RemoteSettings:
    store = repository.engine.store
    assert isinstance(store, RemoteStore)
    return store.settings


def test_what_is_given_goes_over_what_is_saved(s3_server: S3Server) -> None:
    storage = s3_server.storage(frazil, s3_server.new_prefix())
    saved = frazil.StorageSettings(
        concurrency=frazil.StorageConcurrencySettings(7, 1_000_000),
        storage_class="STANDARD",
        unsafe_use_conditional_update=False,
    )
    made = frazil.Repository.create(
        storage, frazil.RepositoryConfig(storage=saved, max_concurrent_requests=9)
    )
    assert not settings_of(made).conditional_update  # as was said, though only here
    opened = settings_of(frazil.Repository.open(storage))
    assert opened.conditional_update
    assert (opened.max_requests_for_object, opened.request_bytes) == (7, 1_000_000)
    assert opened.max_requests == 9
    assert opened.storage_class_of("chunks/x") == "STANDARD"
    other = frazil.StorageSettings(concurrency=frazil.StorageConcurrencySettings(3))
    again = settings_of(frazil.Repository.open(storage, frazil.RepositoryConfig(storage=other)))
    assert (again.max_requests_for_object, again.request_bytes) == (3, 1_000_000)
    assert settings_of(made.reopen(frazil.RepositoryConfig(storage=other))) != settings_of(made)


def test_a_repository_of_a_directory_is_safe_in_a_bucket(
    s3_server: S3Server, tmp_path: Path
) -> None:
    """The reference saves a directory's settings with it: no conditions, no retries, 4 KiB."""
    config = icechunk.RepositoryConfig(inline_chunk_threshold_bytes=100)
    icechunk.Repository.create(icechunk.local_filesystem_storage(str(tmp_path)), config)
    storage = s3_server.storage(frazil, s3_server.new_prefix())
    local = frazil.local_filesystem_storage(tmp_path)
    for info in local.store.list():
        storage.store.put(info.key, local.store.get(info.key).data)
    repository = frazil.Repository.open(storage)
    assert repository.config.storage is not None
    assert repository.config.storage.unsafe_use_conditional_update is False
    found, default = settings_of(repository), RemoteSettings()
    assert found.conditional_update
    assert found.metadata
    assert (found.max_tries, found.request_bytes) == (default.max_tries, default.request_bytes)
    assert repository.config.inline_chunk_threshold_bytes == 100
