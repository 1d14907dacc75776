"""The explorer only reads, only answers to its own name, and runs nobody's code."""

import re
import socket
from pathlib import Path

import pytest

from frazil.web.endpoints import ENDPOINTS
from frazil.web.server import PAGES, STATIC, Server
from tests.web.made import TEMPERATURE, Client, Made

SOURCES = sorted(path for path in STATIC.rglob("*") if path.is_file())


@pytest.mark.parametrize("host", ["evil.example", "evil.example:80", "localhost.evil.example", ""])
def test_another_name_for_this_address_is_refused(client: Client, host: str) -> None:
    status, _, body = client.ask("/api/repository", headers={"Host": host})
    assert status == 421
    assert b"made up" not in body


@pytest.mark.parametrize("host", ["localhost", "LOCALHOST:1234", "127.0.0.1", "[::1]:8000"])
def test_names_of_this_machine_are_answered(client: Client, host: str) -> None:
    assert client.ask("/api/repository", headers={"Host": host})[0] == 200


def test_other_names_are_answered_if_they_were_allowed(made: Made) -> None:
    with Server(made.open(), allowed_hosts=["proxy.example"]) as running:
        client = Client.of(running)
        assert client.ask("/", headers={"Host": "proxy.example:443"})[0] == 200
        assert client.ask("/", headers={"Host": "other.example"})[0] == 421
        assert client.ask("/", headers={"Host": "10.0.0.1"})[0] == 421


FROM_ELSEWHERE = [
    {"Sec-Fetch-Site": "cross-site"},
    {"Sec-Fetch-Site": "same-site"},  # another port of this machine
    {"Sec-Fetch-Site": "Cross-Site", "Sec-Fetch-Mode": "no-cors", "Sec-Fetch-Dest": "image"},
    {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document"},
    {"Sec-Fetch-Site": "anything"},
    {"Origin": "http://evil.example"},
    {"Origin": "null"},
    {"Origin": "http://localhost:1"},
    {"Origin": "http://[evil"},
    {"Referer": "http://evil.example/page"},
]
OWN: list[dict[str, str]] = [
    {},
    {"Sec-Fetch-Site": "same-origin", "Sec-Fetch-Mode": "cors", "Sec-Fetch-Dest": "empty"},
    {"Sec-Fetch-Site": "none", "Sec-Fetch-Mode": "navigate"},  # typed
    {"Host": "localhost:8000", "Origin": "http://localhost:8000"},
    {"Host": "localhost:8000", "Referer": "http://localhost:8000/storage?count=all"},
]


@pytest.mark.parametrize("endpoint", ENDPOINTS)
def test_pages_of_other_sites_cannot_ask_for_data(client: Client, endpoint: str) -> None:
    assert client.ask(f"/api/{endpoint}")[0] != 403
    for headers in FROM_ELSEWHERE:
        for method in ("GET", "HEAD"):
            status, answered, body = client.ask(
                f"/api/{endpoint}?count=all", method=method, headers=headers
            )
            assert status == 403, headers
            assert answered["content-type"] == "application/json"
            assert b"made up" not in body
    for headers in OWN:
        assert client.ask(f"/api/{endpoint}", headers=headers)[0] != 403, headers


@pytest.mark.parametrize("headers", OWN)
def test_own_pages_and_programs_get_data(client: Client, headers: dict[str, str]) -> None:
    assert client.ask("/api/repository", headers=headers)[0] == 200


@pytest.mark.parametrize("headers", FROM_ELSEWHERE)
def test_other_sites_may_link_to_the_pages(client: Client, headers: dict[str, str]) -> None:
    for page in PAGES:
        assert client.ask(page, headers=headers)[0] == 200
    assert client.ask("/static/main.js", headers=headers)[0] == 200


def test_no_spelling_of_the_path_gets_past(client: Client) -> None:
    for target in ("/api/repository", "/%61pi/repository", "//api/repository", "/./api/repository"):
        status, _, body = client.ask(target, headers={"Sec-Fetch-Site": "cross-site"})
        assert status in {403, 404}
        assert b"made up" not in body


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE"])
def test_nothing_can_be_changed(client: Client, method: str) -> None:
    for target in ("/", "/api/repository", "/static/main.js"):
        status, headers, _ = client.ask(target, method=method)
        assert (status, headers["allow"]) == (405, "GET, HEAD")


def test_head_is_get_without_the_body(client: Client) -> None:
    for target in ("/commits", "/api/repository", "/static/style.css"):
        status, headers, body = client.ask(target, method="HEAD")
        assert (status, body) == (200, b"")
        assert headers["content-type"] == client.ask(target)[1]["content-type"]


@pytest.mark.parametrize(
    "target", ["/", "/api/repository", "/api/node?path=/nowhere", "/static/main.js", "/nowhere"]
)
def test_every_answer_forbids_what_is_not_ours(client: Client, target: str) -> None:
    _, headers, _ = client.ask(target)
    policy = headers["content-security-policy"]
    assert policy.startswith("default-src 'none'; script-src 'self';")
    assert "unsafe" not in policy
    assert "http" not in policy
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["referrer-policy"] == "no-referrer"
    assert headers["cross-origin-resource-policy"] == "same-origin"
    assert "access-control-allow-origin" not in headers
    assert "server" not in headers


@pytest.mark.parametrize(
    "target",
    [
        "/static/../app.py",
        "/static/%2e%2e/app.py",
        "/static/..%2fapp.py",
        "/static/..%5capp.py",
        "/static//etc/passwd",
        "/static/%00",
        "//etc/passwd",
        "/static/",
        "/static",
        "/../../../../etc/passwd",
    ],
)
def test_no_path_leads_out_of_the_pages(client: Client, target: str) -> None:
    status, _, body = client.ask(target)
    assert status == 404
    assert b"root:" not in body
    assert b"import" not in body


def test_every_part_of_the_pages_is_served(client: Client) -> None:
    assert len(SOURCES) > 10
    for path in SOURCES:
        status, headers, body = client.ask(f"/static/{path.relative_to(STATIC).as_posix()}")
        assert (status, body) == (200, path.read_bytes())
        if path.suffix == ".js":
            assert headers["content-type"].startswith("text/javascript")


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: path.name)
def test_no_part_of_the_pages_makes_code_of_text(path: Path) -> None:
    text = path.read_text()
    wrong = r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(|new Function|srcdoc"
    assert not re.search(wrong, text)
    assert not re.search(r"<script>|javascript:|\son[a-z]+=", text)
    addresses = re.findall(r"(?:https?:)?//[a-z0-9.-]+\.[a-z]{2,}[^\s\"')]*", text)
    assert {each for each in addresses if "www.w3.org/2000/svg" not in each} == set()


def test_looking_changes_no_file(made: Made) -> None:
    def files() -> dict[str, tuple[int, int]]:
        found = (path for path in made.path.rglob("*") if path.is_file())
        return {str(path): (path.stat().st_mtime_ns, path.stat().st_size) for path in found}

    before = files()
    with Server(made.open()) as running:
        client = Client.of(running)
        for page in PAGES:
            client.ask(page)
        for endpoint in ENDPOINTS:
            path = f"/api/{endpoint}?path={TEMPERATURE}&at=main&from=v1&to=main&index=0,0,0"
            assert client.ask(f"{path}&count=all&q=a")[0] == 200, endpoint
    assert files() == before


def test_only_this_machine_is_listened_to(server: Server) -> None:
    assert server.host == "127.0.0.1"
    assert server.url.startswith("http://127.0.0.1:")


def test_garbage_on_the_wire_does_not_stop_the_server(server: Server, client: Client) -> None:
    for line in (b"\x00\x01\x02\r\n\r\n", b"GET / HTTP/9.9\r\n\r\n", b"GET /" + b"a" * 100_000):
        with socket.create_connection((server.host, server.port), timeout=60) as connection:
            connection.sendall(line)
            connection.shutdown(socket.SHUT_WR)
            connection.recv(1000)
    assert client.ask("/api/repository")[0] == 200
