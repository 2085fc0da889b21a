# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Refusals of the kernel's IPVS table.

Each refusal names its item and its reason, and stops no other item.
"""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from support.processes.kernel_modules import no_module_loads
from support.processes.nobody import said_to_nobody
from support.tables.ipvs_tables import DNS, NOTHING, WEB, create, creations, write

from kubenode.engine.errors import MissingError
from kubenode.engine.kernel import ipvs
from kubenode.engine.kernel.ipvs import control
from kubenode.engine.kernel.netlink import NetlinkSocket
from kubenode.engine.model.ipvs import RealServer, RealServerKey, VirtualServer, VirtualServerKey
from kubenode.engine.plan import Step

pytestmark = pytest.mark.usefixtures("empty_ipvs")
REFUSALS = [
    (
        create(WEB, VirtualServer("nosuch")),
        "virtual server tcp 10.96.0.10:80: scheduler nosuch is not available (kernel module ip_vs_nosuch)",
    ),
    (
        create(WEB, VirtualServer("rr", 0, 0, 32, "nope")),
        (
            "virtual server tcp 10.96.0.10:80: scheduler rr or persistence engine nope is not available"
            " (kernel module ip_vs_rr, ip_vs_pe_nope)"
        ),
    ),
    (
        create(WEB._replace(address="fd00::1", family=6), VirtualServer(netmask=0)),
        (
            "virtual server tcp [fd00::1]:80: the kernel refused a value"
            " (the netmask of an IPv6 virtual server must be a prefix length from 1 to 128, not 0)"
        ),
    ),
    (
        create(WEB._replace(port=70000), VirtualServer()),
        "virtual server tcp 10.96.0.10:70000: port is 70000, expected a number from 0 to 65535",
    ),
    (
        create(RealServerKey(WEB, "10.244.1.5", 80), RealServer()),
        "real server 10.244.1.5:80 of tcp 10.96.0.10:80: its virtual server does not exist",
    ),
    (
        create(RealServerKey(DNS, "224.0.0.1", 80), RealServer()),
        (
            "real server 224.0.0.1:80 of udp 10.96.0.10:53: the kernel refused a value"
            " (the address must be one host's: not multicast, not broadcast, not link-local)"
        ),
    ),
    (
        create(RealServerKey(DNS, "fe80::1", 80), RealServer(1, "tunnel")),
        (
            "real server [fe80::1]:80 of udp 10.96.0.10:53: the kernel refused a value"
            " (the address must be one host's: not multicast, not broadcast, not link-local)"
        ),
    ),
    (
        create(RealServerKey(DNS, "fd00::1", 80), RealServer()),
        (
            "real server [fd00::1]:80 of udp 10.96.0.10:53: the kernel refused a value (an IPv6 real server of an IPv4"
            " virtual server must be reached by the forwarding method tunnel, not masquerade)"
        ),
    ),
    (
        create(RealServerKey(DNS, "10.244.1.5", 80), RealServer(1, "tunnel", 0, 0, "gue")),
        "real server 10.244.1.5:80 of udp 10.96.0.10:53: the kernel refused a value (a gue tunnel needs a port)",
    ),
    (
        create(RealServerKey(DNS, "10.244.1.5", 80), RealServer(1, "masquerade", 1, 2)),
        (
            "real server 10.244.1.5:80 of udp 10.96.0.10:53: the kernel refused a value: the weight (1) must not be"
            " negative, nor the lower threshold (2) be above the upper one (1)"
        ),
    ),
    (create(RealServerKey(DNS, "10.244.1.5", 80), RealServer(-1)), "the weight (-1) must not be negative"),
]


@pytest.mark.parametrize(("step", "words"), REFUSALS, ids=[words for _step, words in REFUSALS])
def test_refusal_names_the_item_and_the_reason(step: Step, words: str) -> None:
    write({"virtual_server": {DNS: VirtualServer()}, "real_server": {}})
    (failure,) = ipvs.apply([step]).failed
    assert failure.step == step
    assert words in failure.message
    assert ipvs.read() == {"virtual_server": {DNS: VirtualServer()}, "real_server": {}}


def test_bad_item_does_not_stop_the_others() -> None:
    bad = VirtualServerKey("tcp", "10.96.9.9", 80, 4)
    servers = {VirtualServerKey("tcp", f"10.96.0.{number}", 80, 4): VirtualServer() for number in range(1, 201)}
    servers = {**dict(list(servers.items())[:100]), bad: VirtualServer("nosuch"), **dict(list(servers.items())[100:])}
    steps = creations(
        {
            "virtual_server": servers,
            "real_server": {RealServerKey(key, "10.244.1.5", 80): RealServer() for key in servers},
        }
    )
    result = ipvs.apply(steps, keep_going=True)
    assert [failure.step.key for failure in result.failed] == [bad, RealServerKey(bad, "10.244.1.5", 80)]
    assert len(result.done) == len(steps) - 2
    assert len(ipvs.read()["real_server"]) == 200


@pytest.mark.parametrize("position", [0, 100, 255, 256, 599])
def test_done_lists_exactly_the_applied_steps(position: int) -> None:
    """``done`` includes steps behind the failed one in the same batch, so that undoing ``done`` restores the table."""
    steps = [
        create(VirtualServerKey("tcp", f"10.96.{number >> 8}.{number & 255}", 80, 4), VirtualServer())
        for number in range(600)
    ]
    steps[position] = steps[position]._replace(after=VirtualServer("nosuch"))
    result = ipvs.apply(steps)
    assert [failure.step for failure in result.failed] == [steps[position]]
    assert set(ipvs.read()["virtual_server"]) == {step.key for step in result.done}
    assert len(result.done) < 600 or position == 599
    assert ipvs.apply([step.inverse() for step in reversed(result.done)], keep_going=True).failed == []
    assert ipvs.read() == NOTHING


def test_refusals_lost_in_a_full_queue_are_requested_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """The kernel refuses every message with EEXIST, and the socket's queue holds few of them; every item is changed."""
    steps = [
        create(VirtualServerKey("tcp", f"10.96.{number >> 8}.{number & 255}", 80, 4), VirtualServer())
        for number in range(600)
    ]
    ipvs.apply(steps)
    real_init = NetlinkSocket.__init__
    monkeypatch.setattr(NetlinkSocket, "__init__", lambda self, protocol: real_init(self, protocol, queue_bytes=1))
    result = ipvs.apply([step._replace(after=VirtualServer("wlc")) for step in steps])
    assert (len(result.done), result.failed) == (600, [])
    monkeypatch.undo()
    assert set(ipvs.read()["virtual_server"].values()) == {VirtualServer("wlc")}


def test_missing_permission_is_named() -> None:
    messages = said_to_nobody(ipvs.read, lambda: ipvs.apply([create(WEB, VirtualServer())]).failed[0].message)
    assert messages == [
        "IPVS may not be used: the capability CAP_NET_ADMIN is needed (run as root)",
        "virtual server tcp 10.96.0.10:80: the capability CAP_NET_ADMIN is needed (run as root)",
    ]


def test_kernel_without_ip_vs_is_named() -> None:
    """The module is unloaded, and the kernel must not load it."""
    loaded = [line.split()[0] for line in Path("/proc/modules").read_text().splitlines() if line.startswith("ip_vs")]
    subprocess.run(["modprobe", "-ra", *sorted(loaded, reverse=True)], check=True)
    try:
        for verb in (ipvs.read, control.info, lambda: ipvs.apply([create(WEB, VirtualServer())])):
            with (
                no_module_loads(),
                pytest.raises(MissingError, match="ip_vs is not available: load the kernel module ip_vs"),
            ):
                verb()
    finally:
        subprocess.run(["modprobe", "-a", "ip_vs"], check=True)
    assert ipvs.read() == {"virtual_server": {}, "real_server": {}}
