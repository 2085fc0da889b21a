# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The whole of IPVS on a real kernel: traffic and counters, timeouts, synchronisation daemons."""

from __future__ import annotations

import socket
import subprocess
import time
from collections.abc import Iterator
from typing import Any

import pytest
from support.waiting import eventually

from kubenode.engine.errors import InputError, KernelError
from kubenode.engine.kernel import ipvs
from kubenode.engine.kernel.ipvs import control, statistics
from kubenode.engine.kernel.ipvs.control import Timeouts
from kubenode.engine.model.ipvs import RealServer, RealServerKey, SyncDaemon, VirtualServer, VirtualServerKey
from kubenode.engine.plan import Step

VIP, POD = "10.96.0.10", "10.244.1.5"
WEB = VirtualServerKey("tcp", VIP, 80, 4)
OTHER = VirtualServerKey("tcp", VIP, 81, 4)
REAL = RealServerKey(WEB, POD, 8080)


def run(*words: str) -> str:
    return subprocess.run(words, check=True, capture_output=True, text=True).stdout


@pytest.fixture(autouse=True)
def empty_table() -> Iterator[None]:
    control.flush()
    yield
    control.flush()
    for role in control.daemons():
        control.stop_daemon(role)


@pytest.fixture
def server() -> Iterator[socket.socket]:
    """Start a pod behind the virtual server; both addresses are on loopback."""
    for address in (VIP, POD):
        run("ip", "address", "add", f"{address}/32", "dev", "lo")
    steps = [Step("virtual_server", WEB, None, VirtualServer()), Step("real_server", REAL, None, RealServer())]
    assert ipvs.apply(steps).failed == []
    with socket.create_server((POD, 8080)) as listening:
        listening.settimeout(60)
        yield listening
    for address in (VIP, POD):
        run("ip", "address", "del", f"{address}/32", "dev", "lo")


def talk(server: socket.socket) -> tuple[socket.socket, socket.socket]:
    """Open a connection through the virtual server, send ten bytes, and return both ends."""
    client = socket.create_connection((VIP, 80), timeout=60)
    accepted, _peer = server.accept()
    client.sendall(b"0123456789")
    assert accepted.recv(100) == b"0123456789"
    return client, accepted


def counted() -> dict[str, dict[Any, Any]]:
    """Return the counters once they show a connection; the kernel sums them up every two seconds."""
    eventually(lambda: statistics.statistics()["virtual_server"][WEB].connections)
    return statistics.statistics()


def test_change_in_place_keeps_connections_and_counters(server: socket.socket) -> None:
    """To delete and create the virtual server would lose both."""
    client, accepted = talk(server)
    before = counted()
    assert before["virtual_server"][WEB].connections == 1
    assert before["virtual_server"][WEB].bytes_in > 10
    assert (before["real_server"][REAL].traffic.connections, before["real_server"][REAL].active) == (1, 1)
    assert ipvs.read_connections() == {REAL: (1, 0)}
    assert ipvs.read_connections({WEB}) == {REAL: (1, 0)}
    assert ipvs.read_connections({WEB._replace(port=81)}) == {}
    changes = [
        Step("virtual_server", WEB, VirtualServer(), VirtualServer("wlc", 1, 60, 24)),
        Step("real_server", REAL, RealServer(), RealServer(7, "masquerade", 50, 20)),
    ]
    assert ipvs.apply(changes).failed == []
    assert ipvs.read(precise=True) == {
        "virtual_server": {WEB: VirtualServer("wlc", 1, 60, 24)},
        "real_server": {REAL: RealServer(7, "masquerade", 50, 20)},
    }
    after = statistics.statistics()
    assert after["virtual_server"][WEB].bytes_in >= before["virtual_server"][WEB].bytes_in
    assert ipvs.read_connections() == {REAL: (1, 0)}
    client.sendall(b"still here")
    assert accepted.recv(100) == b"still here"
    client.close()
    accepted.close()


def test_counters_match_ipvsadm(server: socket.socket) -> None:
    for end in talk(server):
        end.close()
    counted()
    time.sleep(2.1)  # includes all packets of the connection's end
    shown = run("ipvsadm", "-Ln", "--stats", "--exact").splitlines()
    counters = statistics.statistics()
    for line, traffic in (
        (shown[-2], counters["virtual_server"][WEB]),
        (shown[-1], counters["real_server"][REAL].traffic),
    ):
        assert [int(word) for word in line.split()[-5:]] == list(traffic[:5])


def test_counters_are_zeroed_for_one_and_for_all(server: socket.socket) -> None:
    ipvs.apply([Step("virtual_server", OTHER, None, VirtualServer())])
    for end in talk(server):
        end.close()
    counted()
    control.zero(OTHER)
    assert statistics.statistics()["virtual_server"][WEB].connections == 1
    control.zero(WEB)
    counters = statistics.statistics()
    assert set(counters["virtual_server"][WEB][:5]) == set(counters["real_server"][REAL].traffic[:5]) == {0}
    for end in talk(server):
        end.close()
    counted()
    control.zero()
    assert statistics.statistics(real_servers=False)["virtual_server"][WEB].connections == 0


def test_zeroing_a_missing_virtual_server_fails() -> None:
    with pytest.raises(KernelError, match=r"^virtual server tcp 10\.96\.0\.10:80: it does not exist$"):
        control.zero(WEB)


def test_flush_empties_the_table() -> None:
    ipvs.apply([Step("virtual_server", key, None, VirtualServer()) for key in (WEB, OTHER)])
    control.flush()
    assert ipvs.read() == {"virtual_server": {}, "real_server": {}}


def test_version_matches_ipvsadm() -> None:
    info = control.info()
    assert f"IP Virtual Server version {info.version} (size={info.connection_table_size})" in run("ipvsadm", "-Ln")


def test_timeouts_of_zero_keep_the_value() -> None:
    former = control.get_timeouts()
    try:
        control.set_timeouts(Timeouts(1000, 100, 200))
        assert control.get_timeouts() == Timeouts(1000, 100, 200)
        assert "1000 100 200" in run("ipvsadm", "-Ln", "--timeout")
        control.set_timeouts(Timeouts(tcp_fin=5))
        control.set_timeouts(Timeouts())
        assert control.get_timeouts() == Timeouts(1000, 5, 200)
    finally:
        control.set_timeouts(former)


@pytest.mark.parametrize("seconds", [-1, 2147484])
def test_invalid_timeout_is_refused(seconds: int) -> None:
    with pytest.raises(
        InputError, match=rf"IPVS timeouts: udp is {seconds}, expected seconds from 0 \(keep\) to 2147483"
    ):
        control.set_timeouts(Timeouts(udp=seconds))


def test_daemons_start_with_every_field_and_stop() -> None:
    run("ip", "link", "set", "lo", "multicast", "on")
    master = SyncDaemon("lo", 7, 1200, "224.0.0.99", 9000, 3)
    backup = SyncDaemon("lo", 0, 1300, "ff02::99", 9001, 2)
    control.start_daemon("master", master)
    control.start_daemon("backup", backup)
    assert control.daemons() == {"master": master, "backup": backup}
    shown = run("ipvsadm", "-Ln", "--daemon")
    assert "master sync daemon (mcast=lo, syncid=7, maxlen=1200, group=224.0.0.99, port=9000, ttl=3)" in shown
    with pytest.raises(
        KernelError, match="IPVS synchronisation daemon master cannot be started: one is running already"
    ):
        control.start_daemon("master", master)
    control.stop_daemon("master")
    assert control.daemons() == {"backup": backup}
    with pytest.raises(KernelError, match="IPVS synchronisation daemon master cannot be stopped: none is running"):
        control.stop_daemon("master")


def test_daemon_starts_with_defaults() -> None:
    run("ip", "link", "set", "lo", "multicast", "on")
    control.start_daemon("master", SyncDaemon("lo"))
    assert control.daemons() == {"master": SyncDaemon("lo", 0, 1472, "224.0.0.81", 8848, 1)}


@pytest.mark.parametrize(
    ("role", "daemon", "error", "words"),
    [
        ("master", SyncDaemon("nosuch0"), KernelError, "master cannot be started: there is no interface nosuch0"),
        ("master", SyncDaemon("lo", group="10.0.0.1"), KernelError, "the group must be a multicast address"),
        ("slave", SyncDaemon("lo"), InputError, "state is 'slave', expected master or backup"),
        (
            "master",
            SyncDaemon("an-interface-name"),
            InputError,
            "interface is 'an-interface-name', expected the name of an interface",
        ),
        ("master", SyncDaemon("lo", 256), InputError, "sync_id is 256, expected a number from 0 to 255"),
        ("master", SyncDaemon("lo", 0, 65536), InputError, "max_length is 65536, expected a number from 0 to 65535"),
        ("master", SyncDaemon("lo", group="all"), InputError, "group is 'all', expected a multicast address"),
        ("master", SyncDaemon("lo", ttl=-1), InputError, "ttl is -1, expected a number from 0 to 255"),
    ],
)
def test_invalid_daemon_is_refused(role: str, daemon: SyncDaemon, error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        control.start_daemon(role, daemon)
    assert control.daemons() == {}
