"""The fault proxy does to requests what it says, before a server that counts what reaches it."""

import http.client
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from typing import cast

import pytest

from frazil.testing.fault_proxy import FaultProxy
from frazil.testing.faults import (
    AnswerWith,
    CutResponse,
    DelayRequest,
    DelayResponse,
    DropRequest,
    DropResponse,
    Fault,
    RandomFaults,
    RefuseWith,
    Rule,
    Script,
)
from frazil.testing.loopback import LoopbackServer, QuietHandler

BODY = bytes(range(256)) * 400


class Echo(LoopbackServer):
    """Answers a request with its body, and remembers that it acted."""

    def __init__(self) -> None:
        super().__init__(_Handler)
        self.acted: list[tuple[str, str]] = []
        self.times: list[float] = []


class _Handler(QuietHandler):
    def do_PUT(self) -> None:  # noqa: N802 - the library's name
        body = self.rfile.read(int(self.headers.get("Content-Length", "0")))
        echo = cast("Echo", self.server)
        echo.acted.append((self.command, self.path))
        echo.times.append(time.monotonic())
        self.send_response_only(200)
        self.send_header("X-Host", self.headers["Host"])
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    do_GET = do_HEAD = do_POST = do_PUT  # noqa: N815 - the library's names


@pytest.fixture
def echo() -> Iterator[Echo]:
    with Echo() as server:
        yield server


@pytest.fixture
def proxy(echo: Echo, fault_proxy: Callable[[str], FaultProxy]) -> FaultProxy:
    return fault_proxy(echo.url)


def put(proxy: FaultProxy, path: str = "/x", method: str = "PUT") -> tuple[int, bytes]:
    connection = http.client.HTTPConnection("127.0.0.1", proxy.server_port, timeout=60)
    with closing(connection):
        connection.request(method, path, None if method == "HEAD" else BODY)
        with connection.getresponse() as response:
            return response.status, response.read()


def test_without_faults_everything_passes(proxy: FaultProxy, echo: Echo) -> None:
    assert put(proxy) == (200, BODY)
    assert put(proxy, "/y?list-type=2", "GET") == (200, BODY)
    assert put(proxy, "/z", "HEAD") == (200, b"")
    assert echo.acted == [("PUT", "/x"), ("GET", "/y?list-type=2"), ("HEAD", "/z")]
    assert [one.status for one in proxy.seen] == [200, 200, 200]
    assert proxy.count() == 3
    assert proxy.count("GET", "list-type") == 1


def test_one_connection_serves_many_requests_in_both_framings(
    proxy: FaultProxy, echo: Echo
) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", proxy.server_port, timeout=60)
    with closing(connection):
        for body in (BODY, iter([BODY[:7], BODY[7:]]), b""):
            connection.request("PUT", "/x", body, {"Host": "some.name"})
            with connection.getresponse() as response:
                assert response.read() == (b"" if body == b"" else BODY)
                assert response.headers["X-Host"] == "some.name"
    assert len(echo.acted) == 3


@pytest.mark.parametrize("reset", [False, True])
@pytest.mark.parametrize(("fault", "acted"), [(DropRequest, 0), (DropResponse, 1)])
def test_a_dropped_exchange_ends_the_connection(
    proxy: FaultProxy,
    echo: Echo,
    fault: type[DropRequest | DropResponse],
    acted: int,
    *,
    reset: bool,
) -> None:
    proxy.choose = Script(Rule(fault(reset)))
    # RemoteDisconnected is a ConnectionResetError too; only a real reset has an errno.
    with pytest.raises(ConnectionResetError) as caught:
        put(proxy)
    assert (caught.value.errno is not None) == reset
    assert len(echo.acted) == acted
    assert put(proxy) == (200, BODY)  # only the first was meant


@pytest.mark.parametrize(("fault", "acted"), [(RefuseWith(503), 0), (AnswerWith(500), 1)])
def test_a_wrong_status_is_told_instead_of_or_after_the_act(
    proxy: FaultProxy, echo: Echo, fault: RefuseWith | AnswerWith, acted: int
) -> None:
    proxy.choose = Script(Rule(fault))
    assert put(proxy) == (fault.status, b"")
    assert len(echo.acted) == acted
    assert proxy.seen[0].status == (200 if acted else None)


def test_a_cut_answer_is_shorter_than_it_says(proxy: FaultProxy) -> None:
    proxy.choose = Script(Rule(CutResponse(100)))
    with pytest.raises(http.client.IncompleteRead) as caught:
        put(proxy)
    assert caught.value.partial == BODY[:100]


def test_a_delay_is_before_or_after_the_act(proxy: FaultProxy, echo: Echo) -> None:
    proxy.choose = Script(
        Rule(DelayRequest(0.3), path="early"), Rule(DelayResponse(0.3), path="late")
    )
    started = time.monotonic()
    assert put(proxy, "/early") == (200, BODY)
    assert echo.times[0] - started >= 0.3
    assert put(proxy, "/late") == (200, BODY)
    assert time.monotonic() - echo.times[1] >= 0.3
    assert proxy.most_at_once == 1


def test_a_server_that_is_gone_is_a_bad_gateway(
    fault_proxy: Callable[[str], FaultProxy],
) -> None:
    with Echo() as echo:
        proxy = fault_proxy(echo.url)
    assert put(proxy) == (502, b"")
    assert proxy.count() == 1


def test_a_script_counts_per_rule() -> None:
    fail, drop = RefuseWith(500), DropRequest()
    script = Script(
        Rule(fail, method="PUT", path="/repo", skip=1, times=2), Rule(drop, path="list", times=None)
    )
    assert [script("PUT", "/b/repo") for _ in range(5)] == [None, fail, fail, None, None]
    assert [script("GET", "/b/repo"), script("PUT", "/b/other")] == [None, None]
    assert [script("GET", "/b?list-type=2") for _ in range(3)] == [drop] * 3


def test_weather_is_the_same_for_the_same_seed() -> None:
    faults: list[Fault] = [RefuseWith(500), DropResponse()]
    runs = [RandomFaults(faults, share=0.3, seed=7, methods=["PUT"]) for _ in range(2)]
    first, second = ([weather("PUT", "/x") for _ in range(200)] for weather in runs)
    assert first == second
    assert 30 < sum(fault is not None for fault in first) < 90
    assert set(first) == {None, *faults}
    assert runs[0]("GET", "/x") is None
