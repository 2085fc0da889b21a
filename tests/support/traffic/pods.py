# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Namespace with many pods: addresses behind a veth pair.

Each has a TCP and a UDP server that answers with its address.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time

from ..processes.namespace import sh

PORT = 8080
_SERVER = """
import select, socket, sys
waiting, talking = {}, {}
for address in sys.argv[1:]:
    tcp = socket.create_server((address, 8080))
    udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    udp.bind((address, 8080))
    waiting[tcp], waiting[udp] = address, address
print("ready", flush=True)
while True:
    for ready in select.select([*waiting, *talking], [], [])[0]:
        if ready in talking:
            try:
                data = ready.recv(100)
            except OSError:
                data = b""
            if data:
                ready.send(talking[ready].encode())
            else:
                del talking[ready]
                ready.close()
        elif ready.type == socket.SOCK_DGRAM:
            _data, client = ready.recvfrom(100)
            ready.sendto(waiting[ready].encode(), client)
        else:
            talking[ready.accept()[0]] = waiting[ready]
"""


class Pods:
    """Pods 10.244.1.1 to 10.244.1.``count``; the node is 10.244.1.254."""

    def __init__(self, count: int) -> None:
        self.addresses = [f"10.244.1.{number}" for number in range(1, count + 1)]
        self._name = f"pods{os.getpid()}-{time.monotonic_ns() % 10**6}"
        sh("ip", "netns", "add", self._name)
        sh("ip", "link", "add", "veth0", "type", "veth", "peer", "name", "eth0", "netns", self._name)
        sh("ip", "addr", "add", "10.244.1.254/24", "dev", "veth0")
        sh("ip", "link", "set", "veth0", "up")
        inside = ("ip", "-n", self._name)
        for address in self.addresses:
            sh(*inside, "addr", "add", f"{address}/24", "dev", "eth0")
        sh(*inside, "link", "set", "eth0", "up")
        sh(*inside, "link", "set", "lo", "up")
        sh(*inside, "route", "add", "default", "via", "10.244.1.254")
        command = ["ip", "netns", "exec", self._name, sys.executable, "-IS", "-c", _SERVER, *self.addresses]
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert self._process.stdout is not None
        assert self._process.stdout.readline() == "ready\n"

    def close(self) -> None:
        """End the servers and the namespace."""
        self._process.kill()
        self._process.wait()
        assert self._process.stdout is not None
        self._process.stdout.close()
        sh("ip", "netns", "del", self._name)
