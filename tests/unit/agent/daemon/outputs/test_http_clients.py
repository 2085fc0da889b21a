# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""HTTP from hostile clients on real sockets. The tests count loop turns and limits, and measure no time."""

from __future__ import annotations

import socket
import struct
from collections.abc import Callable, Iterator

import pytest

from kubenode.daemon.loop import Loop
from kubenode.daemon.outputs.health import Health, Servers
from kubenode.daemon.outputs.http import Server
from kubenode.daemon.outputs.http_clients import MOST_CLIENTS, MOST_OF_A_SOURCE, TURNS, Clients, source_of
from kubenode.daemon.outputs.http_response import Response
from kubenode.daemon.outputs.metrics import Metrics
from kubenode.log import Log

PROBE = b"GET /healthz HTTP/1.1\r\nHost: node\r\nConnection: close\r\n\r\n"


class Hostile:
    """A server in a loop that the test runs.

    ``asked`` has the requested paths in order. ``opened`` has the clients that the test opened.
    """

    def __init__(self) -> None:
        self.loop = Loop()
        self.errors: list[Exception] = []
        self.clients = Clients(self.loop, self.errors.append)
        self.asked: list[str] = []
        self.server = Server(self.loop, "127.0.0.1", 0, self.answer, self.clients)
        self.opened: list[socket.socket] = []

    def answer(self, _method: str, path: str) -> Response:
        self.asked.append(path)
        if path == "/fault":
            raise ZeroDivisionError("a fault of a handler")
        return Response(200, "x" * 20_000_000 if path == "/large" else path, "text/plain")

    def connect(self, source: str = "127.0.0.1", data: bytes = b"") -> socket.socket:
        client = socket.create_connection(("127.0.0.1", self.server.port), 10, (source, 0))
        self.opened.append(client)
        client.sendall(data)
        return client

    def run(self, until: Callable[[], object], turns: int = 2000) -> None:
        """Run the loop until the condition holds; fail after this many turns of the loop."""
        left = [turns]

        def look() -> None:
            left[0] -= 1
            if until() or not left[0]:
                self.loop.stop()
            else:
                self.loop.after(0, look)

        self.loop.after(0, look)
        self.loop.run()
        assert until()

    def probe(self, source: str = "127.0.0.1") -> bytes:
        """Ask as a load balancer does, on a new connection; return the answer."""
        client = self.connect(source, PROBE)
        client.setblocking(False)
        parts: list[bytes] = []

        def ended() -> bool:
            try:
                parts.append(client.recv(65536))
            except BlockingIOError:
                return False
            return not parts[-1]

        self.run(ended)
        return b"".join(parts)

    def close(self) -> None:
        for client in self.opened:
            client.close()
        self.server.close()
        self.loop.close()


@pytest.fixture
def hostile() -> Iterator[Hostile]:
    client = Hostile()
    yield client
    client.close()


def answered(answer: bytes) -> bool:
    return answer.startswith(b"HTTP/1.1 200 OK\r\n") and answer.endswith(b"/healthz")


@pytest.mark.parametrize("source", ["127.0.0.1", "127.0.0.2"], ids=["same source", "other source"])
def test_idle_clients_do_not_deny_the_health_check(hostile: Hostile, source: str) -> None:
    for _client in range(300):
        hostile.connect()
    assert answered(hostile.probe(source))
    assert len(hostile.clients) <= MOST_OF_A_SOURCE


@pytest.mark.parametrize("data", [b"", b"GET / HT"], ids=["idle", "slow"])
def test_many_sources_do_not_deny_the_health_check(hostile: Hostile, data: bytes) -> None:
    for number in range(MOST_CLIENTS + 100):
        hostile.connect(f"127.1.{number // 250}.{number % 250 + 1}", data)
    assert answered(hostile.probe())
    assert len(hostile.clients) <= MOST_CLIENTS


def test_full_server_closes_oldest_client_of_largest_source(hostile: Hostile) -> None:
    lone = hostile.connect("127.0.0.9")
    for number in range(MOST_CLIENTS - 1):
        hostile.connect(f"127.0.1.{number // 50 + 1}", b"GET")
    hostile.run(lambda: len(hostile.clients) == MOST_CLIENTS)
    hostile.connect("127.0.0.10")
    hostile.run(lambda: "127.0.0.10" in hostile.clients._sources)
    assert len(hostile.clients) == MOST_CLIENTS
    assert hostile.opened[1].recv(1) == b""
    lone.setblocking(False)
    with pytest.raises(BlockingIOError):
        lone.recv(1)


def test_new_client_is_answered_before_earlier_clients(hostile: Hostile) -> None:
    for _client in range(60):
        hostile.connect(data=b"GET /busy HTTP/1.1\r\nHost: h\r\n\r\n" * 200)
    hostile.run(lambda: len(hostile.asked) >= 120)
    before = len(hostile.asked)
    assert answered(hostile.probe())
    # requests of the loop's current turn, and of the turn that accepts the probe
    assert hostile.asked[before:].index("/healthz") <= 2 * TURNS


def test_pipelined_requests_get_one_answer_per_turn(hostile: Hostile) -> None:
    request = b"GET /%d HTTP/1.1\r\nHost: h\r\n\r\n"
    for number in range(3):
        hostile.connect(data=request % number * 50)
    hostile.run(lambda: len(hostile.asked) == 150)
    assert [sorted(hostile.asked[turn : turn + 3]) for turn in range(0, 150, 3)] == [["/0", "/1", "/2"]] * 50


def test_source_with_many_clients_gets_no_more_turns(hostile: Hostile) -> None:
    for _client in range(40):
        hostile.connect("127.0.0.2", b"GET /many HTTP/1.1\r\nHost: h\r\n\r\n" * 100)
    hostile.run(lambda: len(hostile.asked) >= 200)
    one = hostile.connect("127.0.0.3", b"GET /one HTTP/1.1\r\nHost: h\r\n\r\n" * 20)
    before = len(hostile.asked)
    hostile.run(lambda: hostile.asked.count("/one") == 20)
    turns = len(hostile.asked[before:]) / TURNS
    assert turns <= 22  # each client gets one answer in each turn of the loop
    one.close()


def test_clients_that_do_not_read_delay_no_other(hostile: Hostile) -> None:
    for _client in range(20):
        hostile.connect(data=b"GET /large HTTP/1.1\r\nHost: h\r\n\r\n" * 3)
    hostile.run(lambda: hostile.asked.count("/large") == 20)
    assert answered(hostile.probe())
    hostile.run(lambda: not hostile.clients.new)
    assert hostile.asked.count("/large") == 20  # no client gets a second answer before it has read the first


def test_half_closed_and_reset_clients_are_forgotten(hostile: Hostile) -> None:
    half = hostile.connect(data=PROBE.replace(b"Connection: close\r\n", b""))
    half.shutdown(socket.SHUT_WR)
    gone = hostile.connect(data=b"GET /")
    gone.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    gone.close()
    assert answered(hostile.probe())
    hostile.run(lambda: not len(hostile.clients))
    assert answered(half.recv(65536))


def test_endless_request_is_closed_at_its_deadline(hostile: Hostile) -> None:
    hostile.connect(data=b"GET /")
    hostile.run(lambda: len(hostile.clients) == 1 and not hostile.clients.new)
    (client,) = hostile.clients._all
    deadline = client.deadline
    hostile.opened[0].sendall(b"a")  # a byte now and then does not extend the deadline
    hostile.run(lambda: client.served > 1)
    assert client.deadline == deadline
    client.deadline = client.since
    hostile.loop.after(0, hostile.clients._sweep)
    hostile.run(lambda: not len(hostile.clients))


def test_no_client_is_closed_before_its_first_turn(hostile: Hostile) -> None:
    """A machine may be so busy that the deadline is over by then; afterwards it counts."""
    clients = [hostile.connect(data=PROBE), hostile.connect(data=PROBE[:-2])]
    for _client in clients:
        hostile.server._accept()
    for connection in list(hostile.clients._all):
        connection.deadline = 0.0
    hostile.clients._sweep()
    hostile.run(lambda: hostile.asked and not hostile.clients._ready)
    hostile.clients._sweep()
    assert not len(hostile.clients)
    assert clients[0].recv(100).startswith(b"HTTP/1.1 200")
    assert clients[1].recv(100) == b""


def test_fault_in_a_handler_costs_one_connection(hostile: Hostile) -> None:
    broken = hostile.connect(data=b"GET /fault HTTP/1.1\r\nHost: h\r\n\r\n")
    assert answered(hostile.probe())
    assert broken.recv(100) == b""
    assert [type(error) for error in hostile.errors] == [ZeroDivisionError]


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("192.0.2.1", "::ffff:192.0.2.1", True),
        ("192.0.2.1", "192.0.2.2", False),
        ("2001:db8::1", "2001:db8:0:0:ffff::2", True),
        ("2001:db8::1", "2001:db8:0:1::1", False),
        ("fe80::1%eth0", "fe80::2", True),
    ],
)
def test_client_source_is_address_or_ipv6_network(one: str, other: str, same: bool) -> None:
    assert (source_of(one) == source_of(other)) == same


def test_metrics_text_is_made_once_a_second() -> None:
    made: list[float] = []
    now = [100.0]

    class Counted(Metrics):
        def text(self) -> str:
            made.append(now[0])
            return super().text()

    loop = Loop()
    servers = Servers(loop, Log(), Health(60), Counted("1"), lambda: now[0])
    for moment in (100.0, 100.5, 100.999, 101.0, 101.5):
        now[0] = moment
        assert "kubenode_build_info" in servers.answer_metrics("GET", "/metrics").body
    servers.close()
    loop.close()
    assert made == [100.0, 101.0]


def test_health_is_answered_while_the_agent_is_busy() -> None:
    """The agent's loop does not run in this test: it waits for a tool or a lock."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    loop, health = Loop(), Health(60)
    servers = Servers(loop, Log(), health, Metrics("1"))
    servers.serve(("127.0.0.1", port), ("127.0.0.1", 0))
    health.updated()
    with socket.create_connection(("127.0.0.1", port), 10) as client:
        client.sendall(PROBE)
        assert client.recv(65536).startswith(b"HTTP/1.1 200 OK\r\n")
    servers.close()
    loop.close()


def test_agent_ends_if_the_http_thread_ends() -> None:
    loop = Loop()
    servers = Servers(loop, Log(), Health(60), Metrics("1"))
    servers.serve(("127.0.0.1", 0), ("127.0.0.1", 0))
    reasons: list[str] = []
    servers.ended = lambda reason: (reasons.append(reason), loop.stop())[0]
    http = servers._http
    http.call(lambda: http.loop.stop())
    loop.run()
    servers.close()
    loop.close()
    assert "has ended" in reasons[0]
