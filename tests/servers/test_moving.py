"""Copies and bundles to, from and between buckets, and a migration inside of one."""

from pathlib import Path

import icechunk

import frazil
from tests.servers.s3 import S3Server
from tests.unit.maintenance.moved import commit, made, seen


def test_a_repository_goes_to_a_bucket_and_on(s3_server: S3Server, tmp_path: Path) -> None:
    prefixes = [s3_server.new_prefix() for _ in range(4)]
    there, copy, imported, view = (s3_server.storage(frazil, prefix) for prefix in prefixes)
    source = made(frazil.local_filesystem_storage(tmp_path / "here").store, spec_version=1)
    first = source.clone_to(there, check_contents=True)
    assert source.clone_to(there).copied == 0
    remote = frazil.Repository.open(there)
    assert seen(remote) == seen(source)

    remote.migrate()
    remote = frazil.Repository.open(there)
    assert remote.confirm_migration().files == 5
    theirs = icechunk.Repository.open(s3_server.storage(icechunk, prefixes[0]))
    assert seen(theirs) == seen(source)

    commit(remote, "main", 9)
    assert first.copied < remote.clone_to(copy).copied
    remote.export_bundle(tmp_path / "b")
    frazil.Repository.import_bundle(tmp_path / "b", imported)
    for storage in (copy, imported):
        assert seen(frazil.Repository.open(storage)) == seen(remote)

    remote.clone_to(view, shallow=True)
    location = f"s3://{s3_server.bucket}/{prefixes[0]}/chunks/"
    given = s3_server.arguments("")
    credentials = frazil.s3_credentials(
        access_key_id=given["access_key_id"], secret_access_key=given["secret_access_key"]
    )
    access = frazil.containers_credentials({location: credentials})
    shallow = frazil.Repository.open(view, authorize_virtual_chunk_access=access)
    assert seen(shallow, ids=False) == seen(remote, ids=False)
