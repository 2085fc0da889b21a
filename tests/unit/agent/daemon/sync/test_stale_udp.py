# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Stale UDP flows, identified by original destination and reply source."""

from __future__ import annotations

import sys

import pytest
from support.processes.descriptors import no_free_descriptor

from kubenode.daemon.loop import Loop
from kubenode.daemon.sync.stale_udp import FlowCleaner, stale, touched
from kubenode.engine.kernel import nfnetlink
from kubenode.engine.kernel.nfnetlink import conntrack
from kubenode.engine.kernel.nfnetlink.conntrack import Flow
from kubenode.engine.model.ipvs import RealServer, RealServerKey, VirtualServer, VirtualServerKey
from kubenode.engine.plan import Step

DNS = VirtualServerKey("udp", "10.96.0.10", 53, 4)
SERVING = {DNS: frozenset({("10.0.0.1", 53), ("10.0.0.2", 53)})}


@pytest.mark.parametrize(
    ("destination", "port", "answered_by", "from_port", "wanted"),
    [
        ("10.96.0.10", 53, "10.0.0.1", 53, False),
        ("10.96.0.10", 53, "10.0.0.2", 53, False),
        ("10.96.0.10", 53, "10.0.0.3", 53, True),
        ("10.96.0.10", 53, "10.0.0.1", 5353, True),
        ("10.96.0.10", 53, "10.96.0.10", 53, True),
        ("10.96.0.10", 54, "10.0.0.3", 53, False),
        ("10.96.0.11", 53, "10.0.0.3", 53, False),
    ],
    ids=["one", "the other", "gone", "another port", "the node itself", "another service's port", "another service"],
)
def test_flow_is_stale_unless_its_endpoint_serves(
    destination: str, port: int, answered_by: str, from_port: int, wanted: bool
) -> None:
    flow = Flow(4, "10.244.0.9", 40000, destination, port, answered_by, from_port, b"")
    assert stale([flow], SERVING) == [flow] * wanted


def test_touched_servers_are_the_udp_servers_of_steps() -> None:
    tcp = DNS._replace(protocol="tcp")
    steps = [
        Step("real_server", RealServerKey(DNS, "10.0.0.1", 53), None, RealServer(1)),
        Step("real_server", RealServerKey(tcp, "10.0.0.1", 53), None, RealServer(1)),
        Step("virtual_server", DNS._replace(port=54), None, VirtualServer("rr")),
    ]
    assert touched(steps) == {DNS}


def test_missing_descriptors_leave_the_flows_pending(monkeypatch: pytest.MonkeyPatch) -> None:
    """The code that reads conntrack is imported with the first deletion."""
    monkeypatch.delitem(sys.modules, conntrack.__name__)
    monkeypatch.delattr(nfnetlink, "conntrack")
    failures: list[set[VirtualServerKey]] = []
    cleaner = FlowCleaner(Loop(), lambda *_deleted: None, lambda servers, _error: failures.append(servers))
    with no_free_descriptor():
        cleaner.clean(SERVING)
    assert failures == [{DNS}]
