# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Probe /healthz while abusive clients use the agent's servers.

Print the probes' seconds and the number of refused probes as JSON. The benchmark has 200 clients.

    http_abuse.py ADDRESS HEALTH_PORT METRICS_PORT PROBES CLIENTS

The clients are idle, slow, pipelining (half of them do not read), sending garbage, or requesting metrics at full speed.
Each reconnects as soon as its connection is closed. Only the standard library is used: a node has nothing else.
"""

from __future__ import annotations

import json
import os
import selectors
import signal
import socket
import sys
import time

KINDS = ("idle", "slow", "pipelining", "deaf", "garbage", "metrics")
REQUEST = b"GET /healthz HTTP/1.1\r\nHost: node\r\n\r\n"
METRICS = b"GET /metrics HTTP/1.1\r\nHost: node\r\n\r\n"
PROBE = b"GET /healthz HTTP/1.1\r\nHost: node\r\nConnection: close\r\n\r\n"
PAUSE = 0.05  # seconds between two probes
PROBE_SECONDS = 60.0  # a slow answer is counted by its seconds, not as a refusal


class Abuser:
    """One client of a kind; it reconnects whenever its connection ends."""

    def __init__(self, kind: str, address: tuple[str, int], selector: selectors.BaseSelector) -> None:
        self.kind = kind
        self.address = address
        self.selector = selector
        self.connection: socket.socket | None = None
        self.answers = 0
        self.connect()

    def connect(self) -> None:
        self.connection = socket.socket(socket.AF_INET6 if ":" in self.address[0] else socket.AF_INET)
        # Clients on other machines would not use this kernel's TCP memory for what they send. A kernel that is short of
        # it drops the packets of all connections.
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 65536)
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65536)
        self.connection.setblocking(False)
        self.connection.connect_ex(self.address)
        self.selector.register(self.connection, selectors.EVENT_READ | selectors.EVENT_WRITE, self)

    def ready(self, events: int) -> None:
        """Read available data, and write the data of this kind of client."""
        connection = self.connection
        assert connection is not None
        try:
            if events & selectors.EVENT_READ and self.kind != "deaf":
                data = connection.recv(65536)
                if not data:
                    raise ConnectionError
                self.answers += data.count(b"HTTP/1.1 ")
                if self.kind == "metrics":
                    if data.endswith(b"\n"):
                        connection.send(METRICS)
                    return
            if events & selectors.EVENT_WRITE:
                self.write(connection)
        except BlockingIOError:
            self.selector.modify(connection, selectors.EVENT_READ, self)
        except OSError:
            self.selector.unregister(connection)
            connection.close()
            self.connect()

    def write(self, connection: socket.socket) -> None:
        if self.kind in ("pipelining", "deaf"):
            connection.send(REQUEST * 100)
            return
        first = {"idle": b"", "slow": b"GET /", "garbage": os.urandom(200) + b"\r\n\r\n", "metrics": METRICS}[self.kind]
        connection.send(first)
        self.selector.modify(connection, selectors.EVENT_READ, self)

    def drip(self) -> None:
        """Send one more byte."""
        if self.kind == "slow" and self.connection is not None:
            try:
                self.connection.send(b"a")
            except OSError:
                pass  # ready() reconnects


def abuse(address: str, health: int, metrics: int, clients: int) -> None:
    """Run all clients until SIGTERM."""
    selector = selectors.DefaultSelector()
    kinds = [KINDS[number % len(KINDS)] for number in range(clients)]
    abusers = [Abuser(kind, (address, metrics if kind == "metrics" else health), selector) for kind in kinds]
    dripped = 0.0
    while True:
        for key, events in selector.select(0.2):
            key.data.ready(events)
        if time.monotonic() - dripped > 0.2:
            dripped = time.monotonic()
            for abuser in abusers:
                abuser.drip()


def probe(address: str, port: int) -> float | str:
    """Return the seconds until a valid answer, or the error."""
    begun = time.monotonic()
    try:
        with socket.create_connection((address, port), PROBE_SECONDS) as connection:
            connection.sendall(PROBE)
            parts = []
            while part := connection.recv(65536):
                parts.append(part)
    except OSError as error:
        return f"{error} after {time.monotonic() - begun:.3f} s"
    answer = b"".join(parts)
    if answer.startswith(b"HTTP/1.1 200 OK\r\n") and answer.endswith(b"}"):
        return time.monotonic() - begun
    return f"{answer!r} after {time.monotonic() - begun:.3f} s"


def main() -> None:
    """Probe under abuse."""
    address, *numbers = sys.argv[1:]
    health, metrics, probes, clients = map(int, numbers)
    child = os.fork()
    if child == 0:
        abuse(address, health, metrics, clients)
    try:
        time.sleep(2)
        taken = []
        for _probe in range(probes):
            taken.append(probe(address, health))
            time.sleep(PAUSE)
    finally:
        os.kill(child, signal.SIGTERM)
        os.waitpid(child, 0)
    answered = [result for result in taken if isinstance(result, float)]
    print(json.dumps({"seconds": answered, "refused": [result for result in taken if isinstance(result, str)]}))


if __name__ == "__main__":
    main()
