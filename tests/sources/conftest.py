"""A place for files: on disk, behind a web server, in a bucket."""

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.servers.http_files import HttpServer
from tests.sources.places import Place, in_a_bucket, on_disk, on_the_web


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "files"
    made.mkdir()
    return made


@pytest.fixture
def disk(folder: Path) -> Place:
    return on_disk(folder)


@pytest.fixture(params=["disk", "web", "bucket"])
def place(
    request: pytest.FixtureRequest,
    folder: Path,
    http_server: Callable[[Path], HttpServer],
) -> Place:
    match request.param:
        case "disk":
            return on_disk(folder)
        case "web":
            return on_the_web(folder, http_server(folder))
        case _:  # started only if it is asked for
            return in_a_bucket(folder, request.getfixturevalue("s3_server"))
