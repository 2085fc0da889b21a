# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The HTTP server on real sockets, and its health answers compared with kube-proxy's recorded ones."""

from __future__ import annotations

import json
import re
import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kubenode.daemon.loop import Loop
from kubenode.daemon.outputs.health import Health, Servers
from kubenode.daemon.outputs.http import Server
from kubenode.daemon.outputs.http_response import NOT_FOUND, Response
from kubenode.daemon.outputs.metrics import Metrics
from kubenode.engine.desired.local_endpoints import HealthCheck
from kubenode.log import Log

RECORDED = Path(__file__).parents[4] / "golden/http/health.txt"


def answer(_method: str, path: str) -> Response:
    return Response(200, path, "text/plain") if path != "/big" else Response(200, "x" * 3_000_000, "text/plain")


@pytest.fixture
def port() -> Iterator[int]:
    ready, stop = threading.Event(), threading.Event()
    ports: list[int] = []

    def serve() -> None:
        loop = Loop()
        server = Server(loop, "127.0.0.1", 0, answer)
        ports.append(server.port)
        ready.set()

        def look() -> None:
            if stop.is_set():
                loop.stop()
            else:
                loop.after(0.02, look)

        look()
        loop.run()
        server.close()
        loop.close()

    thread = threading.Thread(target=serve)
    thread.start()
    assert ready.wait(60)
    yield ports[0]
    stop.set()
    thread.join(60)


def talk(port: int, request: bytes) -> bytes:
    """Send a request; return all bytes until the server closes."""
    with socket.create_connection(("127.0.0.1", port), 5) as client:
        client.sendall(request)
        client.shutdown(socket.SHUT_WR)
        parts = []
        while part := client.recv(65536):
            parts.append(part)
    return b"".join(parts)


def test_one_connection_serves_several_requests(port: int) -> None:
    received = talk(
        port,
        b"GET /a?x=1 HTTP/1.1\r\nHost: h\r\n\r\nHEAD /bb HTTP/1.1\r\nHost: h\r\n\r\n"
        b"POST /c HTTP/1.1\r\nHost: h\r\nContent-Length: 2\r\n\r\nhi",
    )
    assert re.findall(rb"HTTP/1.1 200 OK", received) == [b"HTTP/1.1 200 OK"] * 3
    assert received.count(b"\r\n\r\n/a") == 1
    assert b"Content-Length: 3\r\n\r\nHTTP" in received  # the answer to HEAD has no body
    assert received.endswith(b"Connection: close\r\n\r\n/c")


def test_many_pipelined_requests_are_all_answered(port: int) -> None:
    request = b"GET / HTTP/1.1\r\nHost: h\r\n\r\n"
    assert talk(port, request * (8192 // len(request))).count(b"HTTP/1.1 200 OK") == 8192 // len(request)
    assert talk(port, b"GET /after HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n").endswith(b"/after")


def test_answer_larger_than_any_buffer_is_sent(port: int) -> None:
    assert len(talk(port, b"GET /big HTTP/1.0\r\n\r\n")) > 3_000_000


@pytest.mark.parametrize(
    ("request_", "status"),
    [
        (b"nonsense\r\n\r\n", b"400"),
        (b"GET / HTTP/1.1\r\nX: " + b"x" * 9000, b"431"),
        (b"GET / SPDY/9\r\n\r\n", b"400"),
        (b"GET / HTTP/1.1\r\n\r\n", b"400"),  # without Host, which Go refuses, too
        (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", b"505"),
        (b"CONNECT a:1 HTTP/1.1\r\nHost: a:1\r\n\r\n", b"405"),
        (b"GET / HTTP/1.1\r\nHost: h\r\nContent-Length: 5, 6\r\n\r\n", b"400"),
        (b"GET / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", b"400"),
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", b"400"),  # a TLS client's first bytes
        (b"GET / HTTP/1.1\r\nHost: h\r\nHalf", b"400"),
    ],
)
def test_malformed_requests_get_an_error(port: int, request_: bytes, status: bytes) -> None:
    assert talk(port, request_).startswith(b"HTTP/1.1 " + status)


# answers as recorded


def recorded(request: str) -> tuple[int, list[str], str]:
    """Return status, headers (without Date and Content-Length) and body of a recorded answer."""
    block = RECORDED.read_text(encoding="utf-8").split(f"# {request}\n", 1)[1]
    head, _blank, rest = block.partition("\n\n")
    lines = head.split("\n")
    length = int(next(line for line in lines if line.startswith("Content-Length")).split()[1])
    headers = [line for line in lines[1:] if not line.startswith(("Date:", "Content-Length:"))]
    return int(lines[0].split()[1]), headers, rest[:length]


def ours(response: Response) -> tuple[int, list[str], str]:
    headers = [f"Content-Type: {response.content_type}", *(f"{name}: {value}" for name, value in response.headers)]
    return response.status, headers, response.body


@pytest.fixture
def servers() -> Iterator[tuple[Servers, Health]]:
    loop = Loop()
    health = Health(60)
    listening = Servers(loop, Log(), health, Metrics("1"))
    yield listening, health
    listening.close()
    loop.close()


@pytest.mark.parametrize("path", ["/healthz", "/livez"])
def test_health_as_recorded(servers: tuple[Servers, Health], path: str) -> None:
    server, health = servers
    health.updated()
    status, headers, body = ours(server.answer_health("GET", path))
    wanted = recorded(f"GET {path} on port 10256")
    assert (status, headers) == wanted[:2]
    one, other = json.loads(body), json.loads(wanted[2])
    assert list(one) == list(other)
    assert [list(value) for value in one["status"].values()] == [list(value) for value in other["status"].values()]
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,9})?Z", one["currentTime"])
    assert ": " not in body


def test_never_synced_agent_is_not_ready_but_alive(servers: tuple[Servers, Health]) -> None:
    server, health = servers

    def statuses() -> list[int]:
        return [server.answer_health("GET", path).status for path in ("/healthz", "/livez")]

    health.timeout = -1.0
    health.queued()
    assert statuses() == [503, 200]
    health.updated()
    assert statuses() == [200, 200]
    health.queued()
    assert statuses() == [503, 503]


def test_unknown_path_as_recorded() -> None:
    assert ours(NOT_FOUND) == recorded("GET /other on port 10256")


def test_metrics_server_answers_its_paths(servers: tuple[Servers, Health]) -> None:
    """/healthz of the metrics server answers ok like every Kubernetes component, whatever the node's state."""
    server, _health = servers
    assert ours(server.answer_metrics("GET", "/proxyMode")) == recorded("GET /proxyMode on port 10249")
    headers = ["Content-Type: text/plain; charset=utf-8", "X-Content-Type-Options: nosniff"]
    assert ours(server.answer_metrics("GET", "/healthz")) == (200, headers, "ok")
    assert server.answer_metrics("GET", "/other") == NOT_FOUND
    assert "kubeproxy_proxy_healthz_total" not in server.answer_metrics("GET", "/metrics").body


@pytest.mark.parametrize(("port", "name", "count"), [(32111, "web", 2), (32112, "empty", 0)])
def test_health_check_node_port_as_recorded(servers: tuple[Servers, Health], port: int, name: str, count: int) -> None:
    server, health = servers
    health.updated()
    server._checks = {port: HealthCheck("default", name, port, {4: count, 6: 0})}
    path = "/healthz"
    assert ours(server._checker(port)("GET", path)) == recorded(f"GET {path} on port {port}")


def test_health_depends_on_recent_passes() -> None:
    now = [1000.0]
    health = Health(60, lambda: now[0])
    assert not health.healthy  # no pass has succeeded yet
    health.queued()
    health.updated()
    assert health.healthy
    health.queued()
    now[0] += 60
    assert health.healthy
    now[0] += 1
    assert not health.healthy
    health.updated()
    assert health.healthy
    now[0] += 10**6
    assert health.healthy  # a pass without changes is healthy


@pytest.mark.parametrize("jump", [10**6, -(10**6)])
def test_wall_clock_changes_do_not_affect_health(jump: float) -> None:
    now, wall = [1000.0], [1.7e9]
    health = Health(60, lambda: now[0], lambda: wall[0])
    health.updated()
    health.queued()
    wall[0] += jump
    assert health.healthy
    now[0] += 61
    assert not health.healthy


def test_used_listen_address_is_retried_or_reported(servers: tuple[Servers, Health]) -> None:
    """The server retries a taken address, or reports it to the agent, which exits.

    The configuration decides which. A taken health check node port never makes the agent exit.
    """
    server, _health = servers
    reasons: list[str] = []
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        check = HealthCheck("default", "web", port, {4: 1})
        server.serve(("127.0.0.1", port), ("127.0.0.1", 0))
        assert not server._running
        server.hard_fail = reasons.append
        server.serve(("127.0.0.1", 0), ("127.0.0.1", 0))
        reports: list[dict[Any, Any]] = []
        server.problems_changed = lambda: reports.append(server.problems)
        server.check({port: check}, ("127.0.0.1",))
        server.check({port: check}, ("127.0.0.1",))
        assert reasons == []
        server.check(server._checks, ("127.0.0.1",))  # unchanged: the server does not check again
        expected = "expected a port that the agent can listen on at 127.0.0.1 (Address already in use)"
        wanted = {("Service", "default/web"): (f"Service default/web: spec.healthCheckNodePort is {port}, {expected}",)}
        assert reports == [wanted]
        # one retry timer for any number of passes
        assert len([timer for _when, _number, timer in server._loop._timers if timer.pending]) == 1
        server.check({}, ("127.0.0.1",))
        assert reports == [wanted, {}]
        server.serve(("127.0.0.1", port), ("127.0.0.1", 0))
        assert reasons == [f"cannot listen for health on 127.0.0.1 port {port}: Address already in use"]
