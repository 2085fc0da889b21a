# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A set is swapped while packets are matched against it: each packet finds the set with all of its members."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from typing import Any

import pytest
from kernel.modules import ModuleError, run
from support.agent.process import eventually
from support.processes.namespace import fresh, sh

ALLOWED = "127.7.0.1"  # the packets' destination, one of many members
MEMBERS = [f"127.7.{high}.{low}" for high in range(4) for low in range(250)]


class Packets:
    """Sender of packets without a pause, until it is stopped.

    A packet that no rule accepts is an error of the sender's system call.
    """

    def __init__(self) -> None:
        self.sent = self.refused = 0
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> Packets:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
            while not self._stop.is_set():
                try:
                    sender.sendto(b"x", (ALLOWED, 9))
                    self.sent += 1
                except PermissionError:
                    self.refused += 1
                except ConnectionRefusedError:
                    self.sent += 1  # the port is closed; this error is about an earlier packet


@pytest.fixture(autouse=True)
def rules() -> Iterator[None]:
    """Drop packets to 127.7/16 that are not in the set."""
    sh("modprobe", "-a", "ip_set", "xt_set")
    fresh()
    sh("ip", "link", "set", "lo", "up")
    put(type="hash:ip", maxelem=2000)
    sh("iptables", "-A", "OUTPUT", "-d", "127.7.0.0/16", "-m", "set", "!", "--match-set", "busy", "dst", "-j", "DROP")
    yield
    sh("iptables", "-F", "OUTPUT")
    run("ipsets", purge="owned")


def put(**options: Any) -> list[str]:
    lines: list[str] = run("ipsets", sets=[{"name": "busy", "members": MEMBERS, **options}])["lines"]
    return lines


def test_rule_refuses_packets_outside_of_the_set() -> None:
    with Packets() as packets:
        eventually(lambda: packets.sent)
        sh("ipset", "flush", "busy")
        eventually(lambda: packets.refused)


@pytest.mark.parametrize(
    "options",
    [
        {"type": "hash:ip", "maxelem": 5000},
        {"type": "hash:ip", "maxelem": 2000, "timeout": 0, "counters": True, "comment": True},
        {"type": "hash:ip", "maxelem": 2000, "netmask": 31, "members": [ALLOWED]},
        {"type": "bitmap:ip", "range": "127.7.0.0/16"},
    ],
    ids=["size", "extensions", "mask", "type"],
)
def test_exchange_of_a_set_loses_no_packet(options: dict[str, Any]) -> None:
    with Packets() as packets:
        eventually(lambda: packets.sent)
        before = packets.sent
        assert put(**options)[0].startswith("~ set busy")
        assert put(type="hash:ip", maxelem=2000)[0].startswith("~ set busy")
    assert packets.sent > before
    assert packets.refused == 0


def test_unexchangeable_type_is_refused_without_packet_loss() -> None:
    with Packets() as packets:
        eventually(lambda: packets.sent)
        with pytest.raises(ModuleError, match="rules of iptables or other sets refer to it"):
            put(type="hash:net")
    assert packets.refused == 0
