# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Views of a service proxy's state in the kernel: is all of it there, and when does a new endpoint arrive?

One for each kind of state that a proxy makes (:data:`VIEWS`). A view costs little of the node's processor meanwhile:
it lists the state only when a cheap number of the kernel stands still.
"""

from __future__ import annotations

import ctypes
import re
import socket
import struct
import subprocess
import time
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple

from engine.kernel.ipvs import connect, dump
from engine.model.ipvs import VirtualServerKey

_NETFILTER = 12  # the netlink protocol
_ADDRESSES = re.compile(r"\d+\.\d+\.\d+\.\d+")


class Expected(NamedTuple):
    """Cluster IPs with protocol and port, and addresses of endpoints, that the kernel must have."""

    servers: frozenset[tuple[str, str, int]]
    endpoints: frozenset[str]

    @property
    def addresses(self) -> frozenset[str]:
        """Cluster IPs and addresses of endpoints."""
        return self.endpoints | {address for _protocol, address, _port in self.servers}


class Awaited(NamedTuple):
    """Endpoint that is on its way to a Service: the change's number, its address, and the Service's virtual server."""

    number: int
    address: str
    server: VirtualServerKey


def output(*command: str) -> str:
    """Run a command and return its output; "" if it fails."""
    return subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True).stdout


class IpvsView:
    """State in IPVS and IP sets."""

    pause = 0.002  # seconds between two checks for awaited endpoints
    file: int | None = None
    complete_signature = False  # without members of sets

    def __init__(self) -> None:
        self._stack = ExitStack()  # holds the socket open as long as this view
        self._socket = self._stack.enter_context(connect())

    def signature(self) -> object:
        """Return a number that grows while virtual servers and real servers are made."""
        return Path("/proc/net/ip_vs").read_bytes().count(b"\n")

    def missing(self, expected: Expected) -> str:
        """Return a remark about the expected state that is not there, or ""."""
        lines = Path("/proc/net/ip_vs").read_text().splitlines()
        servers, reals = set(), set()
        for line in lines:
            words = line.split()
            if words and words[0] in ("TCP", "UDP"):
                servers.add((words[0], *_decoded(words[1])))
            elif words and words[0] == "->" and ":" in words[1] and not words[1].startswith("Remote"):
                reals.add(_decoded(words[1])[0])
        if short := len(expected.servers - servers) + len(expected.endpoints - reals):
            return f"{short} virtual servers or addresses of real servers"
        short = len(expected.servers) - self._members()
        return f"{short} members of the set of cluster IPs" if short > 0 else ""

    def _members(self) -> int:
        """Return the number of members of the set of IPv4 cluster IPs."""
        members = re.search(r"Number of entries: (\d+)", output("ipset", "list", "KUBE-CLUSTER-IP", "-terse"))
        return int(members.group(1)) if members else 0

    def arrived(self, awaited: list[Awaited]) -> list[Awaited]:
        """Return the awaited endpoints that new connections reach now."""
        there = []
        for item in awaited:
            reals = dump.reals(self._socket, [item.server])
            if any(key.address == item.address and real.weight > 0 for key, real in reals.items()):
                there.append(item)
        return there

    def open(self) -> None:
        """Prepare for awaited endpoints."""

    def close(self) -> None:
        """End what :meth:`open` began."""


class IpvsWithNftablesView(IpvsView):
    """State in IPVS and in the agent's tables of nftables."""

    def _members(self) -> int:
        listed = output("nft", "list", "set", "ip", "kubenode", "cluster-ip")
        return len(re.findall(r"[\d.]+ \. (?:tcp|udp) \. \d+", listed))


def _decoded(text: str) -> tuple[str, int]:
    """Return address and port of `0A600101:0050`."""
    address, _, port = text.partition(":")
    return socket.inet_ntoa(bytes.fromhex(address)), int(port, 16)


class NftablesView:
    """State in the tables of kube-proxy's nftables mode, for IPv4."""

    pause = 60.0  # the kernel sends each change
    complete_signature = True
    _FAMILY, _GROUP, _GETGEN = 10 << 8, 7, 16

    def __init__(self) -> None:
        self._asking = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, _NETFILTER)
        self._events: socket.socket | None = None

    @property
    def file(self) -> int | None:
        """Descriptor that is readable when the kernel's tables have changed."""
        return self._events.fileno() if self._events else None

    def signature(self) -> object:
        """Return the kernel's generation: each transaction makes a new one."""
        self._asking.send(struct.pack("=IHHIIBBH", 20, self._FAMILY | self._GETGEN, 1, 1, 0, 0, 0, 0))
        return self._asking.recv(4096)[24:28]

    def missing(self, expected: Expected) -> str:
        """Return a remark about the expected state that is not there, or ""."""
        listed = output("nft", "list", "map", "ip", "kube-proxy", "service-ips")
        servers = {
            (protocol.upper(), address, int(port))
            for address, protocol, port in re.findall(r"([\d.]+) \. (tcp|udp) \. (\d+) :", listed)
        }
        if short := len(expected.servers - servers):
            return f"{short} elements of service-ips"
        reached = set(_ADDRESSES.findall(output("nft", "list", "table", "ip", "kube-proxy")))
        short = len(expected.endpoints - reached)
        return f"{short} addresses of endpoints" if short else ""

    def open(self) -> None:
        """Subscribe to the kernel's events."""
        self._events = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, _NETFILTER)
        self._events.setsockopt(socket.SOL_SOCKET, 33, 64 << 20)  # SO_RCVBUFFORCE
        self._events.bind((0, 0))  # which ends memberships
        self._events.setsockopt(270, 1, self._GROUP)  # SOL_NETLINK, NETLINK_ADD_MEMBERSHIP
        self._events.setblocking(False)

    def close(self) -> None:
        """End the subscription."""
        if self._events:
            self._events.close()
            self._events = None

    def arrived(self, awaited: list[Awaited]) -> list[Awaited]:
        """Return the awaited endpoints whose addresses are in the rules and elements that the kernel has reported."""
        there: list[Awaited] = []
        while self._events:
            try:
                data = self._events.recv(1 << 20)
            except BlockingIOError:
                break
            there += [item for item in awaited if socket.inet_aton(item.address) in data and item not in there]
        return there


class IptablesView:
    """State in the table ``nat`` of IPv4, of the kernel's own iptables (not that of nftables)."""

    pause = 0.005
    file: int | None = None
    complete_signature = True
    _INFO, _ENTRIES, _HEAD = 64, 65, 40
    _LISTED = 0.25  # seconds after which entries are compared although their number is the same

    def __init__(self) -> None:
        self._libc = ctypes.CDLL(None, use_errno=True)
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_RAW)
        self._last: object = None
        self._read = 0.0

    def _get(self, option: int, buffer: bytes) -> bytes:
        data = ctypes.create_string_buffer(buffer, len(buffer))
        size = ctypes.c_uint32(len(buffer))
        if self._libc.getsockopt(self._socket.fileno(), 0, option, data, ctypes.byref(size)):
            return b""
        return data.raw

    def signature(self) -> bytes:
        """Return number and size of the table's rules."""
        return self._get(self._INFO, b"nat".ljust(84, b"\0"))[-8:]

    def missing(self, expected: Expected) -> str:
        """Return a remark about the expected state that is not there, or ""."""
        there = set(_ADDRESSES.findall(output("iptables-save", "-t", "nat")))
        short = len(expected.addresses - there)
        return f"{short} addresses in the rules" if short else ""

    def open(self) -> None:
        """Prepare for awaited endpoints."""
        self._last = None

    def close(self) -> None:
        """End what :meth:`open` began."""

    def arrived(self, awaited: list[Awaited]) -> list[Awaited]:
        """Return the awaited endpoints that the table has."""
        signature, now = self.signature(), time.perf_counter()
        if signature == self._last and now - self._read < self._LISTED:
            return []
        self._last, self._read = signature, now
        (size,) = struct.unpack("=I", signature[-4:]) if signature else (0,)
        head = b"nat".ljust(32, b"\0") + struct.pack("=I", size) + b"\0" * (self._HEAD - 36)
        entries = self._get(self._ENTRIES, head + b"\0" * size)
        return [item for item in awaited if socket.inet_aton(item.address) in entries]


VIEWS = {
    "ipvs": IpvsView,
    "ipvs with nftables": IpvsWithNftablesView,
    "nftables": NftablesView,
    "iptables": IptablesView,
}
