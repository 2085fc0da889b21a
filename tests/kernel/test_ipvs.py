# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""IPVS on a real kernel: what is written is read, ipvsadm agrees, changes keep connections, refusals are explained."""

from __future__ import annotations

import json
import os
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from support import ipvs_tables, ipvsadm, namespace
from support.ipvs_tables import creations

from kubenode.engine.errors import MissingError
from kubenode.engine.kernel import ipvs
from kubenode.engine.kernel.ipvs import control, dump, table
from kubenode.engine.kernel.ipvs.attributes import Service
from kubenode.engine.kernel.ipvs.codec import body
from kubenode.engine.kernel.netlink import NetlinkSocket
from kubenode.engine.model.ipvs import ONE_PACKET, PERSISTENT, SCHED3, RealServer, RealServerKey, VirtualServer, VirtualServerKey
from kubenode.engine.plan import Step, plan

RECORDED = json.loads((Path(__file__).parents[1] / "unit/engine/kernel/ipvs/recorded.json").read_text())
WEB = VirtualServerKey("tcp", "10.96.0.10", 80, 4)
DNS = VirtualServerKey("udp", "10.96.0.10", 53, 4)
REAL = RealServerKey(WEB, "10.244.1.5", 8080)
NOTHING: dict[str, dict[Any, Any]] = {"virtual_server": {}, "real_server": {}}

random_tables = settings(
    max_examples=150,
    deadline=None,
    database=None,
    phases=(Phase.explicit, Phase.generate),  # shrinking against a kernel takes minutes
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)


@pytest.fixture(autouse=True)
def empty_table() -> Iterator[None]:
    control.flush()
    yield
    control.flush()


def create(key: Any, value: Any) -> Step:
    return Step("real_server" if isinstance(key, RealServerKey) else "virtual_server", key, None, value)


def write(state: dict[str, dict[Any, Any]]) -> None:
    result = ipvs.apply(creations(state))
    assert [failure.message for failure in result.failed] == []
    assert result.done == creations(state)


def as_proc_shows(key: RealServerKey, value: RealServer) -> RealServer:
    """What the fast way sees of a real server of a virtual server without tunnels."""
    return RealServer(value.weight, "masquerade" if value.forward == "bypass" else value.forward)


def as_ipvsadm_can_print(state: dict[str, dict[Any, Any]]) -> dict[str, dict[Any, Any]]:
    """ipvsadm 1.31 crashes over unknown tunnel flags, has no word for bypass, and for sh and mh it has none for the third flag."""
    return {
        "virtual_server": {
            key: value._replace(flags=value.flags & ~SCHED3) if value.scheduler in ("sh", "mh") else value
            for key, value in state["virtual_server"].items()
        },
        "real_server": {
            key: value._replace(tunnel_flags=value.tunnel_flags % 3, forward=value.forward.replace("bypass", "direct"))
            for key, value in state["real_server"].items()
        },
    }


@random_tables
@given(ipvs_tables.tables())
def test_what_is_written_is_read(state: dict[str, dict[Any, Any]]) -> None:
    control.flush()
    write(state)
    assert ipvs.read(precise=True) == state
    fast = ipvs.read()
    assert fast["virtual_server"] == state["virtual_server"]
    tunnels = {key.server for key, value in state["real_server"].items() if value.forward == "tunnel"}
    marks = {key: sum(key[:3] == other[:3] for other in state["virtual_server"]) for key in state["virtual_server"]}
    for key, value in state["real_server"].items():
        exact = key.server in tunnels or marks[key.server] > 1
        assert fast["real_server"].pop(key) == (value if exact else as_proc_shows(key, value))
    assert fast["real_server"] == {}
    assert ipvs.read_connections() == dict.fromkeys(state["real_server"], (0, 0))


@random_tables
@given(ipvs_tables.tables())
def test_ipvsadm_agrees(state: dict[str, dict[Any, Any]]) -> None:
    state = as_ipvsadm_can_print(state)
    control.flush()
    write(state)
    servers, reals = ipvsadm.saved()
    assert {tuple(key) for key in state["virtual_server"]} == set(servers)
    for key, value in state["virtual_server"].items():
        said = servers[tuple(key)]
        assert (said["scheduler"], said["flags"], said["pe_name"]) == (value.scheduler, value.flags, value.pe_name)
        if value.flags & PERSISTENT:
            assert said["timeout"] == value.timeout
            assert said["netmask"] in (
                value.netmask,
                None if value.netmask == (128 if key.family == 6 else 32) else value.netmask,
            )
    assert {(tuple(key.server), key.address, key.port) for key in state["real_server"]} == set(reals)
    for key, value in state["real_server"].items():
        said = reals[tuple(key.server), key.address, key.port]
        assert said["weight"] == value.weight
        assert said["forward"] == ("direct" if value.forward == "local" else value.forward)
        if value.forward == "tunnel":
            assert said["tunnel_type"] == value.tunnel_type
            if value.tunnel_type == "gue":
                assert said["tunnel_port"] == value.tunnel_port
            if value.tunnel_type != "ipip":
                assert said["tunnel_flags"] == value.tunnel_flags


def merged(first: dict[str, dict[Any, Any]], second: dict[str, dict[Any, Any]]) -> dict[str, dict[Any, Any]]:
    """The second table, with every other virtual server of the first in it: one with another scheduler, one as it was."""
    kept = dict(list(first["virtual_server"].items())[::2])
    changed = {
        key: value._replace(scheduler="wrr", timeout=77) if at % 2 else value for at, (key, value) in enumerate(kept.items())
    }
    reals = {key: value._replace(weight=9) for key, value in first["real_server"].items() if key.server in kept and key.port % 2}
    return {
        "virtual_server": {**changed, **second["virtual_server"]},
        "real_server": {**second["real_server"], **reals},
    }


@random_tables
@given(ipvs_tables.tables(), ipvs_tables.tables())
def test_plan_and_apply_lead_from_any_table_to_any_other_and_back(
    first: dict[str, dict[Any, Any]], second: dict[str, dict[Any, Any]]
) -> None:
    control.flush()
    write(first)
    want = merged(first, second)
    forth = plan(ipvs.read(precise=True), want, {"virtual_server": set(first["virtual_server"])})
    assert ipvs.apply(forth.steps).failed == []
    assert ipvs.read(precise=True) == want
    assert ipvs.apply(forth.inverse().steps).failed == []
    assert ipvs.read(precise=True) == first


def test_the_recorded_messages_are_what_this_kernel_sends() -> None:
    """Guards the fixture of the unit tests. Counters and rates are left out: they depend on time."""
    lines = "\n".join(RECORDED["ipvsadm"]) + "\n"
    subprocess.run(["ipvsadm", "--restore"], input=lines, text=True, check=True)
    with ipvs.connect() as socket:
        sent = sorted(sorted(found.items()) for found in map(without_counters, dump.server_attributes(socket)))
    recorded = [bytes.fromhex(entry["message"]) for entry in RECORDED["virtual servers"]]
    assert sent == sorted(sorted(without_counters(body(raw)).items()) for raw in recorded)


def without_counters(found: dict[int, bytes]) -> dict[int, bytes]:
    return {number: raw for number, raw in found.items() if number not in (Service.STATS, Service.STATS64)}


def test_thresholds_are_those_that_ipvsadm_shows() -> None:
    write({"virtual_server": {WEB: VirtualServer()}, "real_server": {REAL: RealServer(1, "masquerade", 20, 10)}})
    shown = subprocess.run(["ipvsadm", "-Ln", "--thresholds"], check=True, capture_output=True, text=True).stdout
    assert shown.splitlines()[-1].split() == ["->", "10.244.1.5:8080", "20", "10", "0", "0"]


def test_one_firewall_mark_in_both_families_is_told_apart() -> None:
    four, six = (VirtualServerKey("fwmark", "", 7, family) for family in (4, 6))
    state = {
        "virtual_server": {four: VirtualServer(), six: VirtualServer("wrr", ONE_PACKET, 0, 128)},
        "real_server": {RealServerKey(four, "10.244.1.5", 0): RealServer(2), RealServerKey(six, "fd00::5", 0): RealServer(3)},
    }
    write(state)
    assert ipvs.read() == state
    assert set(ipvs.read_connections()) == set(state["real_server"])


def test_only_what_is_asked_for_is_read_precisely() -> None:
    other = RealServerKey(DNS, "10.244.1.6", 53)
    value = RealServer(1, "masquerade", 20, 10)
    write({"virtual_server": dict.fromkeys((WEB, DNS), VirtualServer()), "real_server": dict.fromkeys((REAL, other), value)})
    assert ipvs.read(precise={DNS})["real_server"] == {REAL: RealServer(1), other: value}


def test_a_table_that_proc_does_not_show_is_read_by_netlink(monkeypatch: pytest.MonkeyPatch) -> None:
    state = {"virtual_server": {WEB: VirtualServer()}, "real_server": {REAL: RealServer(1, "masquerade", 20, 10)}}
    write(state)
    monkeypatch.setattr(table.proc, "PATH", "/proc/net/nothing")
    assert ipvs.read() == state


def test_a_thread_in_another_network_namespace_has_a_table_of_its_own() -> None:
    """Both by netlink and by proc: what it reads and writes is its own, and ours stays."""
    ours = {"virtual_server": {WEB: VirtualServer()}, "real_server": {REAL: RealServer(5)}}
    theirs = {"virtual_server": {WEB: VirtualServer("wlc")}, "real_server": {REAL: RealServer(7)}}
    write(ours)
    seen: list[dict[str, dict[Any, Any]]] = []

    def inside() -> None:
        namespace.fresh()
        namespace.sh("ip", "link", "set", "lo", "up")  # without any route the kernel takes no real server
        seen.append(ipvs.read())
        seen.append(ipvs.read(precise=True))
        ipvs.apply(creations(theirs))
        seen.append(ipvs.read())

    thread = threading.Thread(target=inside)
    thread.start()
    thread.join()
    assert seen == [NOTHING, NOTHING, theirs]
    assert ipvs.read() == ours


def test_creating_what_exists_changes_it_and_changing_what_is_gone_creates_it() -> None:
    write({"virtual_server": {WEB: VirtualServer("rr")}, "real_server": {REAL: RealServer(1)}})
    write({"virtual_server": {WEB: VirtualServer("wlc", 1, 60)}, "real_server": {REAL: RealServer(5)}})
    assert ipvs.read() == {"virtual_server": {WEB: VirtualServer("wlc", 1, 60)}, "real_server": {REAL: RealServer(5)}}
    control.flush()
    steps = [
        Step("virtual_server", WEB, VirtualServer("rr"), VirtualServer("wrr")),
        create(REAL, RealServer(3)),
        Step("real_server", REAL._replace(port=81), RealServer(1), RealServer(4)),
    ]
    assert ipvs.apply(steps).failed == []
    assert ipvs.read() == {
        "virtual_server": {WEB: VirtualServer("wrr")},
        "real_server": {REAL: RealServer(3), REAL._replace(port=81): RealServer(4)},
    }


def test_deleting_what_is_gone_is_success() -> None:
    gone = [Step("real_server", REAL, RealServer(), None), Step("virtual_server", WEB, VirtualServer(), None)]
    assert ipvs.apply(gone).done == gone
    write({"virtual_server": {WEB: VirtualServer()}, "real_server": {}})
    assert ipvs.apply(gone).done == gone
    assert ipvs.read() == NOTHING


REFUSALS = [
    (
        create(WEB, VirtualServer("nosuch")),
        "virtual server tcp 10.96.0.10:80: scheduler nosuch is not available (kernel module ip_vs_nosuch)",
    ),
    (
        create(WEB, VirtualServer("rr", 0, 0, 32, "nope")),
        "virtual server tcp 10.96.0.10:80: scheduler rr or persistence engine nope is not available"
        " (kernel module ip_vs_rr, ip_vs_pe_nope)",
    ),
    (
        create(WEB._replace(address="fd00::1", family=6), VirtualServer(netmask=0)),
        "virtual server tcp [fd00::1]:80: the kernel refused a value"
        " (the netmask of an IPv6 virtual server must be a prefix length from 1 to 128, not 0)",
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
        "real server 224.0.0.1:80 of udp 10.96.0.10:53: the kernel refused a value"
        " (the address must be one host's: not multicast, not broadcast, not link-local)",
    ),
    (
        create(RealServerKey(DNS, "fe80::1", 80), RealServer(1, "tunnel")),
        "real server [fe80::1]:80 of udp 10.96.0.10:53: the kernel refused a value"
        " (the address must be one host's: not multicast, not broadcast, not link-local)",
    ),
    (
        create(RealServerKey(DNS, "fd00::1", 80), RealServer()),
        "real server [fd00::1]:80 of udp 10.96.0.10:53: the kernel refused a value"
        " (an IPv6 real server of an IPv4 virtual server must be reached by the forwarding method tunnel, not masquerade)",
    ),
    (
        create(RealServerKey(DNS, "10.244.1.5", 80), RealServer(1, "tunnel", 0, 0, "gue")),
        "real server 10.244.1.5:80 of udp 10.96.0.10:53: the kernel refused a value (a gue tunnel needs a port)",
    ),
    (
        create(RealServerKey(DNS, "10.244.1.5", 80), RealServer(1, "masquerade", 1, 2)),
        "real server 10.244.1.5:80 of udp 10.96.0.10:53: the kernel refused a value: the weight (1) must not be negative,"
        " nor the lower threshold (2) be above the upper one (1)",
    ),
    (create(RealServerKey(DNS, "10.244.1.5", 80), RealServer(-1)), "the weight (-1) must not be negative"),
]


@pytest.mark.parametrize(("step", "words"), REFUSALS, ids=[words for _step, words in REFUSALS])
def test_a_refusal_names_the_item_and_the_reason(step: Step, words: str) -> None:
    write({"virtual_server": {DNS: VirtualServer()}, "real_server": {}})
    (failure,) = ipvs.apply([step]).failed
    assert failure.step == step
    assert words in failure.message
    assert ipvs.read() == {"virtual_server": {DNS: VirtualServer()}, "real_server": {}}


def test_one_bad_item_does_not_stop_the_others() -> None:
    bad = VirtualServerKey("tcp", "10.96.9.9", 80, 4)
    servers = {VirtualServerKey("tcp", f"10.96.0.{number}", 80, 4): VirtualServer() for number in range(1, 201)}
    servers = {**dict(list(servers.items())[:100]), bad: VirtualServer("nosuch"), **dict(list(servers.items())[100:])}
    steps = creations(
        {"virtual_server": servers, "real_server": {RealServerKey(key, "10.244.1.5", 80): RealServer() for key in servers}}
    )
    result = ipvs.apply(steps, keep_going=True)
    assert [failure.step.key for failure in result.failed] == [bad, RealServerKey(bad, "10.244.1.5", 80)]
    assert len(result.done) == len(steps) - 2
    assert len(ipvs.read()["real_server"]) == 200


@pytest.mark.parametrize("position", [0, 100, 255, 256, 599])
def test_done_is_exactly_what_was_done(position: int) -> None:
    """Also behind the failed step in the same batch: whoever undoes ``done`` leaves nothing behind."""
    steps = [
        create(VirtualServerKey("tcp", f"10.96.{number >> 8}.{number & 255}", 80, 4), VirtualServer()) for number in range(600)
    ]
    steps[position] = steps[position]._replace(after=VirtualServer("nosuch"))
    result = ipvs.apply(steps)
    assert [failure.step for failure in result.failed] == [steps[position]]
    assert set(ipvs.read()["virtual_server"]) == {step.key for step in result.done}
    assert len(result.done) < 600 or position == 599
    assert ipvs.apply([step.inverse() for step in reversed(result.done)], keep_going=True).failed == []
    assert ipvs.read() == NOTHING


def test_refusals_that_are_lost_in_a_full_queue_are_asked_for_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every message is refused with EEXIST, and the socket's queue holds few of them; still every item is changed."""
    steps = [
        create(VirtualServerKey("tcp", f"10.96.{number >> 8}.{number & 255}", 80, 4), VirtualServer()) for number in range(600)
    ]
    ipvs.apply(steps)
    real_init = NetlinkSocket.__init__
    monkeypatch.setattr(NetlinkSocket, "__init__", lambda self, protocol: real_init(self, protocol, queue_bytes=1))
    result = ipvs.apply([step._replace(after=VirtualServer("wlc")) for step in steps])
    assert (len(result.done), result.failed) == (600, [])
    monkeypatch.undo()
    assert set(ipvs.read()["virtual_server"].values()) == {VirtualServer("wlc")}


def test_without_the_right_it_is_said() -> None:
    """In a child that is nobody."""
    read_end, write_end = os.pipe()
    child = os.fork()
    if not child:
        try:
            os.setresuid(65534, 65534, 65534)
            text = ""
            try:
                ipvs.read()
            except MissingError as error:
                text = str(error)
            (failure,) = ipvs.apply([create(WEB, VirtualServer())]).failed
            os.write(write_end, f"{text}\n{failure.message}".encode())
        finally:
            os._exit(0)
    os.close(write_end)
    with open(read_end, encoding="ascii") as file:
        said = file.read().splitlines()
    os.waitpid(child, 0)
    assert said == [
        "IPVS may not be used: the right CAP_NET_ADMIN is needed (run as root)",
        "virtual server tcp 10.96.0.10:80: the right CAP_NET_ADMIN is needed (run as root)",
    ]


def test_a_kernel_without_ip_vs() -> None:
    """The module is taken out and the kernel forbidden to load it."""
    helper = Path("/proc/sys/kernel/modprobe")
    former = helper.read_text()
    loaded = [line.split()[0] for line in Path("/proc/modules").read_text().splitlines() if line.startswith("ip_vs")]
    subprocess.run(["modprobe", "-ra", *sorted(loaded, reverse=True)], check=True)
    try:
        helper.write_text("/bin/false")
        assert not ipvs.available()
        for verb in (ipvs.read, control.info, lambda: ipvs.apply([create(WEB, VirtualServer())])):
            with pytest.raises(MissingError, match="ip_vs is not available: load the kernel module ip_vs"):
                verb()
    finally:
        helper.write_text(former)
        subprocess.run(["modprobe", "-a", "ip_vs"], check=True)
    assert ipvs.available()
