# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Readings that decode an IPVS table only after a change, on a real kernel; ipvsadm is the other process."""

from __future__ import annotations

import random
import socket

import pytest
from support.processes.namespace import sh
from support.tables.believer import Believer
from support.waiting import eventually

from kubenode.engine.kernel import ipvs
from kubenode.engine.model import State
from kubenode.engine.model.ipvs import RealServer, RealServerKey, VirtualServer, VirtualServerKey
from kubenode.engine.plan import Step
from kubenode.engine.proxy import ipvs_table
from kubenode.engine.proxy.ipvs_table import IpvsTable

pytestmark = pytest.mark.usefixtures("empty_ipvs")
WEB = "10.96.0.10:80"
SERVERS = [VirtualServerKey("tcp", f"10.96.0.{number}", 80, 4) for number in range(10, 20)]
REALS = [RealServerKey(server, f"10.244.0.{number}", 8080) for server in SERVERS for number in range(1, 4)]
CREATED = [
    *[Step("virtual_server", key, None, VirtualServer()) for key in SERVERS],
    *[Step("real_server", key, None, RealServer(1)) for key in REALS],
]


@pytest.fixture
def believer(monkeypatch: pytest.MonkeyPatch) -> Believer:
    monkeypatch.setattr(ipvs_table, "_A_TURN", 2)
    table, want = IpvsTable(False), {"virtual_server": dict.fromkeys(SERVERS)}
    started = Believer(table.apply, lambda believed: table.reading(want, believed), CREATED)
    eventually(started.reads_nothing)  # Linux 7 resizes a new table in the background, which is a change
    return started


def without_thresholds(state: State) -> State:
    reals = {key: value._replace(upper_threshold=0, lower_threshold=0) for key, value in state["real_server"].items()}
    return {**state, "real_server": reals}


@pytest.mark.parametrize(
    "change",
    [
        f"-e -t {WEB} -r 10.244.0.1:8080 -m -w 5",
        f"-e -t {WEB} -r 10.244.0.1:8080 -m -w 1 -x 7",
        f"-a -t {WEB} -r 10.244.0.9:80 -i -w 1",
        f"-a -t {WEB} -r 10.244.0.9:80 -g -w 1",
        f"-a -t {WEB} -r 10.244.0.9:8080 -m -w 1",
        f"-d -t {WEB} -r 10.244.0.1:8080",
        f"-E -t {WEB} -s wrr",
        f"-E -t {WEB} -s rr -p 100",
        f"-E -t {WEB} -s rr -p 100 -M 255.255.0.0",
        f"-D -t {WEB}",
        "-A -u 10.96.0.99:53 -s rr",
        "-A -f 7 -s rr",
        "-C",
    ],
)
def test_change_by_another_process_is_read(believer: Believer, change: str) -> None:
    sh("ipvsadm", *change.split())
    present = ipvs.read(precise=True)
    readings = [believer.read() for _turn in range(len(SERVERS) // 2)]
    assert all(without_thresholds(reading) == without_thresholds(present) for reading in readings)
    # Thresholds are read in turns; a later reading forgets them if Linux 7 resizes the table between the two.
    assert present in readings


def test_connections_are_no_change(believer: Believer) -> None:
    sh("ip", "link", "add", "kube-ipvs0", "type", "dummy")
    sh("ip", "addr", "add", "10.96.0.10/32", "dev", "kube-ipvs0")
    sh("ip", "addr", "add", "10.244.0.1/16", "dev", "kube-ipvs0")
    sh("ip", "link", "set", "kube-ipvs0", "up")
    clients: list[socket.socket] = []

    def reads_nothing_after_connection() -> bool:
        """a reading after a new connection has the believed items themselves"""
        clients.append(socket.socket())
        clients[-1].setblocking(False)
        clients[-1].connect_ex(("10.96.0.10", 80))
        assert sum(map(sum, ipvs.read_connections().values())) >= len(clients)
        return believer.reads_nothing()

    eventually(reads_nothing_after_connection)
    for client in clients:
        client.close()


def test_own_write_that_another_process_reverts_is_read(believer: Believer) -> None:
    believer.write([Step("real_server", REALS[0], RealServer(1), RealServer(9))])
    sh("ipvsadm", "-e", "-t", WEB, "-r", "10.244.0.1:8080", "-m", "-w", "1")
    assert believer.read() == ipvs.read(precise=True)
    assert believer.read()["real_server"][REALS[0]] == RealServer(1)


@pytest.mark.parametrize("seed", range(3))
def test_write_between_slices_is_read_next_time(believer: Believer, seed: int) -> None:
    dice = random.Random(seed)
    for _round in range(20):
        weight, key = dice.randrange(1, 100), dice.choice(REALS)
        step = Step("real_server", key, believer.believed["real_server"][key], RealServer(weight))
        believer.read_beside([step], dice.randrange(4))
        assert believer.read() == ipvs.read(precise=True)
