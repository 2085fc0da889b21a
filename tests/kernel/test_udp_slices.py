# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Deletion of stale UDP flows from a real kernel, in slices of one packet.

The loop runs other callbacks between the slices. The tests count slices, and measure no time.
"""

from __future__ import annotations

import socket
import subprocess
from collections.abc import Iterator
from typing import Any

import pytest

from kubenode.daemon.loop import Loop
from kubenode.daemon.sync.stale_udp import FlowCleaner
from kubenode.engine.errors import EngineError
from kubenode.engine.kernel.nfnetlink import conntrack
from kubenode.engine.model.ipvs import VirtualServerKey

FLOWS = 1500
A_PACKET = 65536 // 128  # an entry of the dump is larger than this
HOSTS = {4: "127.0.0.1", 6: "::1"}
DOMAINS = {4: socket.AF_INET, 6: socket.AF_INET6}
OTHERS = 7002  # a port without stale flows


def run(*words: str) -> None:
    subprocess.run(words, check=True, capture_output=True)


@pytest.fixture(params=[4, 6])
def server(request: pytest.FixtureRequest) -> Iterator[VirtualServerKey]:
    """Make a virtual server with many flows, each answered by its own address, and as many flows to another port."""
    family: int = request.param
    tables = {4: "iptables", 6: "ip6tables"}[family]
    rule = ["OUTPUT", "-m", "conntrack", "--ctstate", "INVALID", "-j", "RETURN"]
    run("modprobe", "nf_conntrack_netlink")
    run(tables, "-A", *rule)
    run("conntrack", "-F")
    host = HOSTS[family]
    with socket.socket(DOMAINS[family], socket.SOCK_DGRAM) as listening:
        listening.bind((host, 0))
        for number in range(FLOWS):
            with socket.socket(DOMAINS[family], socket.SOCK_DGRAM) as client:
                client.bind((host, 20000 + number))
                client.sendto(b"x", listening.getsockname())
                client.sendto(b"x", (host, OTHERS))
        yield VirtualServerKey("udp", host, listening.getsockname()[1], family)
    run("conntrack", "-F")
    run(tables, "-D", *rule)


class Cleaning:
    """A cleaner on a loop that ends after one family; it counts the loop's turns meanwhile."""

    def __init__(self) -> None:
        self.loop = Loop()
        self.turns = 0
        self.cleaned: list[tuple[int, int, set[Any]]] = []
        self.failed: list[str] = []
        self.cleaner = FlowCleaner(self.loop, self._cleaned, self._failed)

    def _cleaned(self, family: int, count: int, servers: set[Any], seconds: float) -> None:
        assert seconds > 0
        self.cleaned.append((family, count, servers))
        self.loop.after(0, lambda: None if self.cleaner.pending else self.loop.stop())

    def _failed(self, servers: set[Any], error: EngineError) -> None:
        self.failed.append(str(error))
        self.loop.stop()

    def _turn(self) -> None:
        self.turns += 1
        self.loop.after(0, self._turn)

    def run(self) -> None:
        self.loop.after(0, self._turn)
        self.loop.run()
        self.loop.close()
        self.cleaner.close()


def test_dump_is_read_in_slices_of_a_packet(server: VirtualServerKey) -> None:
    slices = [len(flows) for flows in conntrack.reading_udp_flows(server.family)]
    assert sum(slices) == 2 * FLOWS
    assert max(slices) <= A_PACKET
    mine = [len(flows) for flows in conntrack.reading_udp_flows(server.family, [(server.address, server.port)])]
    assert sum(mine) == FLOWS
    assert len(mine) == len(slices)


def test_other_destinations_are_not_taken_apart(server: VirtualServerKey, monkeypatch: pytest.MonkeyPatch) -> None:
    taken = []
    real = conntrack._flow
    monkeypatch.setattr(conntrack, "_flow", lambda family, entry: taken.append(1) or real(family, entry))
    assert [flows for flows in conntrack.reading_udp_flows(server.family, [(server.address, 1)]) if flows] == []
    assert taken == []
    list(conntrack.reading_udp_flows(server.family, [(server.address, server.port)]))
    assert len(taken) == FLOWS


def test_loop_turns_between_slices_of_deletion(server: VirtualServerKey) -> None:
    cleaning = Cleaning()
    cleaning.cleaner.clean({server: frozenset({("10.244.0.1", 53)})})
    assert cleaning.cleaner.pending == {server}
    cleaning.run()
    assert (cleaning.cleaned, cleaning.failed) == ([(server.family, FLOWS, {server})], [])
    assert cleaning.turns >= 2 * FLOWS // A_PACKET
    assert len(conntrack.udp_flows(server.family)) == FLOWS


def test_flows_of_a_returning_endpoint_stay(server: VirtualServerKey) -> None:
    cleaning = Cleaning()
    cleaning.cleaner.clean({server: frozenset({("10.244.0.1", 53)})})
    left = len(conntrack.udp_flows(server.family))
    assert 2 * FLOWS - A_PACKET <= left < 2 * FLOWS  # one slice is done
    cleaning.cleaner.clean({server: frozenset({(server.address, server.port)})})
    cleaning.run()
    assert [count for _family, count, _servers in cleaning.cleaned] == [2 * FLOWS - left, 0]
    assert len(conntrack.udp_flows(server.family)) == left


def test_flows_of_deleted_services_stay(server: VirtualServerKey) -> None:
    cleaning = Cleaning()
    cleaning.cleaner.clean({server: frozenset({("10.244.0.1", 53)})})
    left = len(conntrack.udp_flows(server.family))
    cleaning.cleaner.forget([server])
    cleaning.run()
    assert len(conntrack.udp_flows(server.family)) == left
