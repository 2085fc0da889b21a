# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Scheduler mh on a real kernel: 1,000 roll-outs, and no new connection is refused (kubernetes/kubernetes#139497)."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import threading
from collections import deque
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from struct import Struct
from typing import Any, NoReturn

import pytest

from kubenode.engine.kernel import ipvs
from kubenode.engine.kernel.ipvs import control
from kubenode.engine.model import State
from kubenode.engine.model.ipvs import SCHED2, RealServer, RealServerKey, VirtualServer, VirtualServerKey
from kubenode.engine.proxy.drain.policy import Drain
from kubenode.engine.proxy.planning import Claims, make_plan

ROLLOUTS = 1000
KEPT = 256
VIP, PORT = "10.96.0.77", 80
PODS = [f"10.244.7.{number}" for number in range(1, 6)]
SERVER = VirtualServerKey("tcp", VIP, PORT, 4)
AT_REST = VirtualServer("mh", SCHED2, 0, 32)  # kube-proxy makes the same
EXPIRE = Path("/proc/sys/net/ipv4/vs/expire_nodest_conn")
RESET = Struct("ii").pack(1, 0)
ONCE, LATER = 10.0, 100.0  # the longest drain time; a time when it is over


def run(*words: str) -> None:
    subprocess.run(words, check=True)


@pytest.fixture(autouse=True)
def addresses() -> Iterator[None]:
    """Add the virtual address and the pods' addresses to loopback, and start one server for all pods."""
    run("modprobe", "-a", "ip_vs", "ip_vs_mh")
    before = EXPIRE.read_text()
    # as the agent sets it: a reused port may still belong to a connection of a removed pod
    EXPIRE.write_text("1\n")
    with ExitStack() as stack:
        stack.callback(EXPIRE.write_text, before)
        for address in (VIP, *PODS):
            run("ip", "address", "add", f"{address}/32", "dev", "lo")
            stack.callback(run, "ip", "address", "del", f"{address}/32", "dev", "lo")
        listening = stack.enter_context(socket.create_server(("0.0.0.0", PORT), backlog=1024))
        threading.Thread(target=serve, args=(listening,), daemon=True).start()
        yield
        listening.shutdown(socket.SHUT_RDWR)
        control.flush()


def serve(listening: socket.socket) -> None:
    """Accept connections and keep the last ones; their clients reset them."""
    connections: deque[socket.socket] = deque()
    try:
        while True:
            connections.append(listening.accept()[0])
            if len(connections) > KEPT:
                connections.popleft().close()
    except OSError:  # the test has ended
        for connection in connections:
            connection.close()


def connect() -> int:
    """Connect from a new port; return 0, or the error."""
    with socket.socket() as client:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
        client.settimeout(10)
        return client.connect_ex((VIP, PORT))


class Node:
    """The virtual server as the agent keeps it: planned with graceful termination, applied by netlink."""

    def __init__(self) -> None:
        self.have: State = {"virtual_server": {}, "real_server": {}}
        self.draining: dict[Any, float] = {}

    def converge(self, pods: list[str], now: float) -> None:
        reals = {RealServerKey(SERVER, pod, PORT): RealServer(1) for pod in pods}
        want: State = {"virtual_server": {SERVER: AT_REST}, "real_server": dict(reals)}
        claims = Claims({"virtual_server": {SERVER}}, {})
        prepared, self.draining = make_plan(
            self.have, want, claims, Drain(self.draining, now, ONCE, ipvs.read_connections)
        )
        assert ipvs.apply(prepared.steps).failed == []
        self.have = ipvs.read(precise=True)


class Load:
    """A process that connects continuously until :meth:`stop`."""

    def __init__(self) -> None:
        self._reader, writer = os.pipe()
        self._child = os.fork()
        if self._child == 0:
            connect_until_terminated(writer)
        os.close(writer)

    def stop(self) -> dict[int, int]:
        """Return the number of connections by error, 0 for none."""
        os.kill(self._child, signal.SIGTERM)
        os.waitpid(self._child, 0)
        codes = os.read(self._reader, 1 << 16)
        os.close(self._reader)
        return {int(code): count for code, count in json.loads(codes).items()}


def connect_until_terminated(writer: int) -> NoReturn:
    stopped: list[int] = []
    signal.signal(signal.SIGTERM, lambda number, _frame: stopped.append(number))
    codes: dict[int, int] = {}
    while not stopped:
        code = connect()
        codes[code] = codes.get(code, 0) + 1
    os.write(writer, json.dumps(codes).encode())
    os._exit(0)


def test_mh_rollouts_under_connections_refuse_none() -> None:
    node = Node()
    node.converge(PODS[:3], 0.0)
    load = Load()
    try:
        codes = roll_out(node)
    finally:
        under_load = load.stop()
    assert under_load.get(0, 0) > ROLLOUTS
    assert (codes, under_load.keys()) == ({0}, {0}), under_load


def roll_out(node: Node) -> set[int]:
    """Replace some pods by others; return the errors of connections meanwhile, 0 for none."""
    codes = set()
    for number in range(ROLLOUTS):
        now = number * LATER
        pods = [PODS[(number + 1 + offset) % len(PODS)] for offset in range(3)]
        node.converge(pods, now)
        gone = PODS[number % len(PODS)]
        assert node.have["real_server"][RealServerKey(SERVER, gone, PORT)].weight == 0
        codes.update(connect() for _time in range(6))
        node.converge(pods, now + 2 * ONCE)
        assert node.draining == {}
        assert {key.address for key in node.have["real_server"]} == set(pods)
        assert node.have["virtual_server"] == {SERVER: AT_REST}
        codes.add(connect())
    return codes
