"""`frazil serve`, as a process."""

import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

import frazil
from tests.web.made import Client, Made

COMMAND = Path(sys.executable).with_name("frazil")


@contextmanager
def serving(*arguments: object, start_new_session: bool = False) -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen(
        [COMMAND, "serve", *map(str, arguments)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=start_new_session,
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def test_the_url_is_printed_and_ctrl_c_stops_it(made: Made) -> None:
    with serving(made.path, "--port", 0, "--json") as process:
        assert process.stdout is not None
        url = json.loads(process.stdout.readline())["url"]
        client = Client("127.0.0.1", int(url.removesuffix("/").rpartition(":")[2]))
        assert client.json("repository")["branches"]["name"] == ["main", "side"]
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=120)
        assert (process.returncode, out, err) == (0, "", "")


def test_people_are_told_where_to_look(made: Made) -> None:
    with serving(made.path, "--port", 0) as process:
        assert process.stdout is not None
        line = process.stdout.readline()
        assert "http://127.0.0.1:" in line
        assert "Ctrl-C" in line
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=120)


def test_a_folder_of_repositories_is_served_as_a_whole(tmp_path: Path) -> None:
    for name in ("one", "two"):
        frazil.Repository.create(frazil.local_filesystem_storage(str(tmp_path / name)))
    (tmp_path / "empty").mkdir()
    with serving(tmp_path, "--port", 0) as process:
        assert process.stdout is not None
        line = process.stdout.readline()
        assert line.startswith(f"the repositories of {tmp_path} are at http://127.0.0.1:")
        client = Client("127.0.0.1", int(re.findall(r":(\d+)/", line)[0]))
        statuses = [client.ask(f"/repo/{name}/api/repository")[0] for name in ("two", "empty")]
        assert statuses == [200, 404]
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=120)
    assert "there is no repository at" in refused(tmp_path / "empty")


def refused(*arguments: object) -> str:
    done = subprocess.run(
        [COMMAND, "serve", *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
        stdin=subprocess.DEVNULL,
    )
    assert (done.returncode, done.stdout) == (1, "")
    return done.stderr


def test_a_port_that_is_taken_is_one_line(made: Made) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        message = refused(made.path, "--port", port)
    assert message.startswith(f"error: cannot listen on 127.0.0.1 port {port}: ")


def test_without_the_extra_it_is_named(made: Made, tmp_path: Path) -> None:
    """A starlette that cannot be imported, in front of the real one."""
    (tmp_path / "starlette.py").write_text("raise ModuleNotFoundError(name='starlette')")
    done = subprocess.run(
        [sys.executable, "-m", "frazil", "serve", str(made.path)],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
        env={"PYTHONPATH": str(tmp_path)},
    )
    assert done.returncode == 1
    assert done.stderr.startswith("error: the explorer needs the package 'starlette'")
    assert "frazil[web]" in done.stderr


def test_a_wrong_port_is_refused(made: Made) -> None:
    done = subprocess.run(
        [COMMAND, "serve", str(made.path), "--port=99999"],
        capture_output=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 2


@pytest.mark.long
@pytest.mark.spark
def test_ctrl_c_also_ends_spark(made: Made) -> None:
    """Of all processes in the foreground, as a terminal does it."""
    with serving(made.path, "--port", 0, "--json", start_new_session=True) as process:
        assert process.stdout is not None
        url = json.loads(process.stdout.readline())["url"]
        client = Client("127.0.0.1", int(url.removesuffix("/").rpartition(":")[2]))
        found = client.json("sql", q="SELECT count(*) FROM climate WHERE temperature > 0")
        assert found["rows"] == [[str(10 * 60 * 120)]]
        assert len(processes_of(process.pid)) > 1
        os.killpg(process.pid, signal.SIGINT)
        out, err = process.communicate(timeout=120)
        assert (process.returncode, out, err) == (0, "", "")
    end = time.monotonic() + 60
    while processes_of(process.pid):
        assert time.monotonic() < end, "Spark is still there"
        time.sleep(0.1)


@pytest.mark.spark
def test_without_java_the_rest_goes_on(made: Made) -> None:
    with serving(made.path, "--port", 0, "--json", start_new_session=True) as process:
        assert process.stdout is not None
        url = json.loads(process.stdout.readline())["url"]
        client = Client("127.0.0.1", int(url.removesuffix("/").rpartition(":")[2]))
        assert client.json("sql", q="SELECT 1")["rows"] == [["1"]]
        (java,) = (each for each in processes_of(process.pid) if "java" in command_of(each))
        os.kill(int(java), signal.SIGKILL)
        found = client.json("sql", q="SELECT 1")
        assert (found["kind"], "frazil serve" in found["problem"]) == ("no-spark", True)
        assert client.json("repository")["branches"]["name"] == ["main", "side"]
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=120)
        assert process.returncode == 0


def command_of(process: str) -> str:
    return Path("/proc", process, "comm").read_text()


def processes_of(session: int) -> list[str]:
    """Ids of the processes of a session that have not ended."""
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            state, _, _, own = stat.read_text().rpartition(")")[2].split()[:4]
            if int(own) == session and state != "Z":
                found.append(stat.parent.name)
    return found
