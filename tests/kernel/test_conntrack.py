# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Connection tracking on a real kernel: UDP flows with and without IPVS."""

from __future__ import annotations

import socket
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from support.processes.kernel_modules import no_module_loads
from support.processes.nobody import said_to_nobody

from kubenode.engine.errors import MissingError
from kubenode.engine.kernel import ipvs
from kubenode.engine.kernel.ipvs import control
from kubenode.engine.kernel.nfnetlink import conntrack
from kubenode.engine.kernel.nfnetlink.conntrack import Flow
from kubenode.engine.model.ipvs import RealServer, RealServerKey, VirtualServer, VirtualServerKey
from kubenode.engine.plan import Step

ADDRESSES = {4: ("10.96.0.10", "10.244.1.5", "127.0.0.1"), 6: ("fd00:96::10", "fd00:244::5", "::1")}
DOMAIN = {4: socket.AF_INET, 6: socket.AF_INET6}


def run(*words: str) -> str:
    return subprocess.run(words, check=True, capture_output=True, text=True).stdout


@pytest.fixture(params=[4, 6], autouse=True)
def family(request: pytest.FixtureRequest) -> Iterator[int]:
    """Add addresses of a virtual and a real server to loopback, and a rule that enables connection tracking."""
    version: int = request.param
    vip, pod, _host = ADDRESSES[version]
    length = {4: 32, 6: 128}[version]
    tables = {4: "iptables", 6: "ip6tables"}[version]
    rule = ["OUTPUT", "-m", "conntrack", "--ctstate", "INVALID", "-j", "RETURN"]
    run("modprobe", "-a", "ip_vs", "ip_vs_rr", "nf_conntrack_netlink")
    run(tables, "-A", *rule)
    Path("/proc/sys/net/ipv4/vs/conntrack").write_text("1\n")
    for address in (vip, pod):
        run("ip", "address", "add", f"{address}/{length}", "dev", "lo", *(["nodad"] if version == 6 else []))
    run("conntrack", "-F")
    yield version
    control.flush()
    for address in (vip, pod):
        run("ip", "address", "del", f"{address}/{length}", "dev", "lo")
    run("conntrack", "-F")
    run(tables, "-D", *rule)


@pytest.fixture
def sockets() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


def bound(sockets: ExitStack, family: int, address: str, port: int = 0) -> socket.socket:
    made = sockets.enter_context(socket.socket(DOMAIN[family], socket.SOCK_DGRAM))
    made.bind((address, port))
    made.settimeout(60)
    return made


def exchange(client: socket.socket, server: socket.socket, destination: tuple[str, int]) -> None:
    client.sendto(b"question", destination)
    data, peer = server.recvfrom(100)
    assert data == b"question"
    server.sendto(b"answer", peer)
    assert client.recv(100) == b"answer"


def through_ipvs(sockets: ExitStack, family: int) -> tuple[socket.socket, socket.socket]:
    vip, pod, _host = ADDRESSES[family]
    dns = VirtualServerKey("udp", vip, 53, family)
    netmask = {4: 32, 6: 128}[family]
    steps = [
        Step("virtual_server", dns, None, VirtualServer(netmask=netmask)),
        Step("real_server", RealServerKey(dns, pod, 5353), None, RealServer()),
    ]
    assert ipvs.apply(steps).failed == []
    client, server = bound(sockets, family, vip), bound(sockets, family, pod, 5353)
    exchange(client, server, (vip, 53))
    return client, server


def test_ipvs_flow_has_real_server_as_reply_source(family: int, sockets: ExitStack) -> None:
    vip, pod, _host = ADDRESSES[family]
    client, _server = through_ipvs(sockets, family)
    port = client.getsockname()[1]
    (flow,) = [flow for flow in conntrack.udp_flows(family) if flow.destination_port == 53]
    assert flow[:-1] == (family, vip, port, vip, 53, pod, 5353)


def test_dump_has_only_udp_flows_of_the_family(family: int, sockets: ExitStack) -> None:
    """conntrack(8) lists the same flows."""
    _vip, _pod, host = ADDRESSES[family]
    through_ipvs(sockets, family)
    for port in (7001, 7002):
        exchange(bound(sockets, family, host), bound(sockets, family, host, port), (host, port))
    with socket.create_server((host, 7003), family=DOMAIN[family]) as listening:
        socket.create_connection(listening.getsockname()[:2]).close()
    other = 10 - family
    there = ADDRESSES[other][2]
    exchange(bound(sockets, other, there), bound(sockets, other, there, 7004), (there, 7004))
    shown = [dict(word.split("=", 1) for word in reversed(line.split()) if "=" in word) for line in listed(family)]
    assert len(shown) == 3
    assert {
        (flow.source, flow.source_port, flow.destination, flow.destination_port) for flow in conntrack.udp_flows(family)
    } == {(line["src"], int(line["sport"]), line["dst"], int(line["dport"])) for line in shown}


def listed(family: int) -> list[str]:
    return run("conntrack", "-L", "-f", f"ipv{family}", "-p", "udp").splitlines()


def test_deleted_flow_is_gone_and_others_stay(family: int, sockets: ExitStack) -> None:
    _vip, _pod, host = ADDRESSES[family]
    through_ipvs(sockets, family)
    exchange(bound(sockets, family, host), bound(sockets, family, host, 7001), (host, 7001))
    flows = {flow.destination_port: flow for flow in conntrack.udp_flows(family)}
    assert set(flows) == {53, 7001}
    assert conntrack.delete([flows[53]]) == 1
    assert [flow.destination_port for flow in conntrack.udp_flows(family)] == [7001]
    assert conntrack.delete([flows[53], flows[7001]]) == 1  # the first flow is already deleted
    assert conntrack.udp_flows(family) == []


def test_flow_with_another_id_is_not_deleted(family: int, sockets: ExitStack) -> None:
    """A different id stands for a new flow with the same addresses that replaced the listed one."""
    _vip, _pod, host = ADDRESSES[family]
    exchange(bound(sockets, family, host), bound(sockets, family, host, 7001), (host, 7001))
    (flow,) = conntrack.udp_flows(family)
    assert conntrack.delete([flow._replace(handle=flow.handle[:-4] + b"\0\0\0\x01")]) == 0
    assert conntrack.udp_flows(family) == [flow]


def test_many_flows_are_deleted_at_once(family: int, sockets: ExitStack) -> None:
    _vip, _pod, host = ADDRESSES[family]
    client = bound(sockets, family, host)
    for port in range(20000, 21000):
        client.sendto(b"x", (host, port))
    flows: list[Flow] = conntrack.udp_flows(family)
    assert {flow.destination_port for flow in flows} == set(range(20000, 21000))
    assert conntrack.delete(flows) == 1000
    assert conntrack.udp_flows(family) == []


def test_missing_permission_is_named(family: int) -> None:
    flow = Flow(family, "10.0.0.1", 1, "10.0.0.2", 2, "10.0.0.2", 2, b"")
    messages = said_to_nobody(lambda: conntrack.udp_flows(family), lambda: conntrack.delete([flow, flow]))
    assert messages == [
        "connection tracking may not be read: the capability CAP_NET_ADMIN is needed (run as root)",
        "UDP flow from 10.0.0.1 port 1 to 10.0.0.2 port 2 cannot be deleted: Operation not permitted",
    ]


def test_kernel_without_conntrack_is_named(family: int) -> None:
    """The module is unloaded, and the kernel must not load it."""
    run("modprobe", "-r", "nf_conntrack_netlink")
    with no_module_loads(), pytest.raises(MissingError, match="load the kernel module nf_conntrack_netlink"):
        conntrack.udp_flows(family)
