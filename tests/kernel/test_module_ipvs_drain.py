# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Module ipvs_services with ``drain``: real connections, during the wait and after ``drain_timeout``."""

from __future__ import annotations

import fcntl
import os
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from kernel.modules import ModuleError, run
from support.processes.guarded import undone
from support.waiting import eventually

VIP, PODS = "192.0.2.80", ("198.51.100.11", "198.51.100.12")
WEB = {"protocol": "tcp", "address": VIP, "port": 80}
LEAVING, STAYING = ({"address": pod, "port": 8080} for pod in PODS)
LEAVES = f"real server {PODS[0]}:8080 of tcp {VIP}:80"
LONG = 300  # seconds; a test that waits this long has failed


def sh(*words: str) -> str:
    return subprocess.run(words, check=True, capture_output=True, text=True).stdout


def saved() -> str:
    return sh("ipvsadm", "-Sn")


class Connection:
    """A TCP connection of this machine through the virtual server, and its end in the pod."""

    def __init__(self, listening: socket.socket) -> None:
        self.client = socket.create_connection((VIP, 80), timeout=60)
        self.accepted, _peer = listening.accept()
        self.works()

    def works(self) -> None:
        self.client.sendall(b"0123456789")
        assert self.accepted.recv(100) == b"0123456789"

    def close(self) -> None:
        self.client.close()
        self.accepted.close()


@pytest.fixture(autouse=True)
def connection() -> Iterator[Connection]:
    """Connect to the first of two pods; the second is new."""
    sh("modprobe", "-a", "ip_vs", "ip_vs_rr")
    for address in (VIP, *PODS):
        sh("ip", "address", "add", f"{address}/32", "dev", "lo")
    run("ipvs_services", services=[{**WEB, "real_servers": [LEAVING]}])
    with socket.create_server((PODS[0], 8080)) as listening:
        listening.settimeout(60)
        client = Connection(listening)
        run("ipvs_services", services=[{**WEB, "real_servers": [LEAVING, STAYING]}])
        yield client
        client.close()
    run("ipvs_services", purge="owned")
    for address in (VIP, *PODS):
        sh("ip", "address", "del", f"{address}/32", "dev", "lo")
    sh("ipvsadm", "-C")


class Meanwhile:
    """A function that another thread runs once the first real server has weight 0; :meth:`done` raises its error."""

    def __init__(self, what: Callable[[], None]) -> None:
        self._what = what
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        try:
            eventually(lambda: f"-r {PODS[0]}:8080 -m -w 0\n" in saved())
            self._what()
        except BaseException as error:
            self._error = error

    def done(self) -> None:
        self._thread.join()
        if self._error is not None:
            raise self._error


def drained(**arguments: Any) -> dict[str, Any]:
    """Run in check mode and for real; both results must agree."""
    foreseen = run("ipvs_services", check=True, drain=True, **arguments)
    result = run("ipvs_services", drain=True, **arguments)
    for field in ("changed", "plan", "lines", "diff"):
        assert result[field] == foreseen[field], field
    assert "drained" not in foreseen
    again = run("ipvs_services", drain=True, **arguments)
    assert (again["changed"], again["plan"], "drained" in again) == (False, [], False)
    return result


def ended(result: dict[str, Any]) -> list[tuple[str, int]]:
    return [(each["real_server"], each["active_connections"]) for each in result["drained"]]


def test_real_server_is_removed_when_its_connection_ends(connection: Connection) -> None:
    def meanwhile() -> None:
        looked = time.monotonic() + 1.5  # longer than the module's polling interval
        while time.monotonic() < looked:
            connection.works()
            assert f"-r {PODS[0]}:8080 -m -w 0\n" in saved()
        connection.close()

    other = Meanwhile(meanwhile)
    result = drained(services=[{**WEB, "real_servers": [STAYING]}], drain_timeout=LONG)
    other.done()
    assert result["lines"] == [f"~ {LEAVES}: weight 1 masquerade -> weight 0 masquerade", f"- {LEAVES}"]
    assert result["diff"] == {"before": {LEAVES: "weight 1 masquerade"}, "after": {}}
    assert ended(result) == [(LEAVES.removeprefix("real server "), 0)]
    assert 1 < result["drained"][0]["seconds"] < LONG
    assert result["warnings"] == []
    assert saved() == f"-A -t {VIP}:80 -s rr\n-a -t {VIP}:80 -r {PODS[1]}:8080 -m -w 1\n"


@pytest.mark.parametrize(
    "how", [{"services": [{**WEB, "state": "absent"}]}, {"purge": "owned"}], ids=["absent", "purge"]
)
def test_removed_virtual_server_drains_its_real_servers(connection: Connection, how: dict[str, Any]) -> None:
    other = Meanwhile(connection.close)
    result = drained(drain_timeout=LONG, **how)
    other.done()
    assert [line.split()[:3] for line in result["lines"]] == [
        *[["~", "real", "server"]] * 2,
        *[["-", "real", "server"]] * 2,
        ["-", "virtual", "server"],
    ]
    assert [active for _name, active in ended(result)] == [0, 0]
    assert saved() == ""


def test_drain_timeout_removes_server_and_is_reported(connection: Connection) -> None:
    result = drained(services=[{**WEB, "real_servers": [STAYING]}], drain_timeout=1)
    assert ended(result) == [(LEAVES.removeprefix("real server "), 1)]
    assert result["warnings"] == [
        f"{LEAVES} had 1 active connection(s) left when drain_timeout (1 s) was over; it was removed"
    ]
    assert PODS[0] not in saved()
    connection.client.settimeout(1)
    connection.client.sendall(b"lost")
    connection.accepted.settimeout(1)
    with pytest.raises(TimeoutError):
        connection.accepted.recv(100)


def test_real_server_of_weight_0_drains_too(connection: Connection) -> None:
    """An earlier run was ended while it waited, or another process has set weight 0."""
    sh("ipvsadm", "-e", "-t", f"{VIP}:80", "-r", f"{PODS[0]}:8080", "-m", "-w", "0")
    result = drained(services=[{**WEB, "real_servers": [STAYING]}], drain_timeout=1)
    assert result["lines"] == [f"- {LEAVES}"]
    assert ended(result) == [(LEAVES.removeprefix("real server "), 1)]


def test_failure_after_the_drain_undoes_the_removal(connection: Connection) -> None:
    before = saved()
    with pytest.raises(ModuleError) as error:
        run(
            "ipvs_services",
            services=[{**WEB, "real_servers": [STAYING]}],
            sync_daemons=[{"role": "master", "interface": "nosuch0"}],
            drain=True,
            drain_timeout=1,
        )
    assert str(error.value).startswith(
        "IPVS synchronisation daemon master cannot be started: there is no interface nosuch0"
    )
    assert error.value.result["undone"] == [
        f"+ {LEAVES}: weight 0 masquerade",
        f"~ {LEAVES}: weight 0 masquerade -> weight 1 masquerade",
    ]
    assert sorted(saved().splitlines()) == sorted(before.splitlines())
    connection.works()


def test_lock_is_free_during_the_drain(connection: Connection) -> None:
    def meanwhile() -> None:
        handle = os.open("/run/kubenode/lock", os.O_RDWR)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX)  # returns while the task waits for the connection
            connection.works()
            assert PODS[0] in saved()
        finally:
            os.close(handle)
        connection.close()

    other = Meanwhile(meanwhile)
    result = drained(services=[{**WEB, "real_servers": [STAYING]}], drain_timeout=LONG)
    other.done()
    assert ended(result) == [(LEAVES.removeprefix("real server "), 0)]


@pytest.mark.parametrize("seconds", [0, 86401])
def test_invalid_drain_timeout_is_refused(seconds: int) -> None:
    with pytest.raises(ModuleError, match=f"^task: drain_timeout is {seconds}, expected a number between 1 and 86400$"):
        run("ipvs_services", drain=True, drain_timeout=seconds)


def test_unconfirmed_drain_is_undone(connection: Connection) -> None:
    """``confirm_timeout`` begins when the real server is removed; the undo restores it, and its connection goes on."""
    before = saved()
    wanted = [{**WEB, "real_servers": [STAYING]}]
    result = run("ipvs_services", services=wanted, drain=True, drain_timeout=2, confirm_timeout=1)
    assert ended(result) == [(LEAVES.removeprefix("real server "), 1)]
    assert undone(result["confirm"]["path"])["problems"] == []
    assert sorted(saved().splitlines()) == sorted(before.splitlines())
    connection.works()
