"""A server for each test that wants one."""

from collections.abc import Iterator

import pytest

from tests.unit.objectstore.recording_server import RecordingServer


@pytest.fixture
def server() -> Iterator[RecordingServer]:
    with RecordingServer() as running:
        yield running
