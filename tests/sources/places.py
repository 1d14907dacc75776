"""Places that files of others are in, and repositories whose virtual chunks are parts of them."""

import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.request import urlopen

from obstore.store import LocalStore

import frazil
from frazil.objectstore.credentials import HttpAccess, LocalFileSystemAccess
from tests.servers.http_files import HttpServer
from tests.servers.s3 import S3Server


@dataclass(frozen=True, slots=True)
class Place:
    """Files under `prefix`, which ends in a slash; `folder` is where they are made."""

    folder: Path
    prefix: str
    store: frazil.ObjectStoreConfig
    credentials: Any
    s3: S3Server | None = None
    key_prefix: str = ""

    def publish(self, file: Path) -> str:
        """The file's location there; what is published again replaces what was."""
        if self.s3 is not None:
            self.s3.raw(self.key_prefix).put(file.name, file.read_bytes())
        elif file.parent != self.folder:
            shutil.copyfile(file, self.folder / file.name)
        return self.prefix + file.name

    def publish_tree(self, directory: Path) -> str:
        """All files below a directory of `folder`, under its name."""
        for file in directory.rglob("*"):
            if self.s3 is not None and file.is_file():
                name = file.relative_to(self.folder).as_posix()
                self.s3.raw(self.key_prefix).put(name, file.read_bytes())
        return self.prefix + directory.name

    def etag(self, file: Path) -> str:
        """As the place says it of a published file."""
        if self.s3 is not None:
            return str(self.s3.raw(self.key_prefix).head(file.name)["e_tag"])
        if isinstance(self.credentials, HttpAccess):
            with urlopen(self.prefix + file.name) as answer:  # noqa: S310 -- of this machine
                return str(answer.headers["ETag"])
        return str(LocalStore(self.folder).head(file.name)["e_tag"])

    def repository(self, root: Path) -> frazil.Repository:
        """With a container for the place, and leave to read it."""
        config = frazil.RepositoryConfig.default()
        config.set_virtual_chunk_container(frazil.VirtualChunkContainer(self.prefix, self.store))
        repo = frazil.Repository.create(
            frazil.local_filesystem_storage(str(root)),
            config,
            authorize_virtual_chunk_access=frazil.containers_credentials(
                {self.prefix: self.credentials}
            ),
        )
        repo.save_config()
        return repo


def on_disk(folder: Path) -> Place:
    store = frazil.local_filesystem_store(str(folder))
    return Place(folder, f"file://{folder}/", store, LocalFileSystemAccess())


def on_the_web(folder: Path, server: HttpServer) -> Place:
    return Place(folder, f"{server.url}/", frazil.http_store({"allow_http": "true"}), HttpAccess())


def in_a_bucket(folder: Path, server: S3Server) -> Place:
    store = frazil.s3_store(
        region=server.region,
        endpoint_url=server.endpoint,
        allow_http=True,
        s3_compatible=True,
        force_path_style=True,
    )
    credentials = frazil.s3_credentials(
        access_key_id=server.access_key, secret_access_key=server.secret_key
    )
    inside = server.new_prefix()
    return Place(
        folder,
        f"s3://{server.bucket}/{inside}/",
        store,
        credentials,
        server,
        inside,
    )
