# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""``/proc/net/ip_vs``: every real server in one read, where netlink needs a request for each virtual server.

::

    IP Virtual Server version 1.2.1 (size=4096)
    Prot LocalAddress:Port Scheduler Flags
      -> RemoteAddress:Port Forward Weight ActiveConn InActConn
    TCP  0A600001:0050 rr  persistent 30000 FFFFFFFF
      -> [2001:0db8:0000:0000:0000:0000:0000:0002]:0050      Tunnel  1      0          0
    FWM  00000007 wrr ops

The file lacks thresholds, tunnel details, the family of a firewall mark, and bypass (shown as ``Masq``). Addresses are
unabbreviated: hexadecimal digits of a number for IPv4, eight groups for IPv6.

The kernel writes a virtual server and its real servers as one record. File offsets count records. So a virtual server
that is created or removed between two reads shifts those after it, and one of them is repeated or missing.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from socket import AF_INET, AF_INET6, inet_ntop

from ...model.ipvs import DIRECT, LOCAL, MASQUERADE, PROTOCOLS, TUNNEL, VirtualServerKey

PATH = "/proc/thread-self/net/ip_vs"  # /proc/net is the main thread's, perhaps of another namespace
FORWARDING_METHODS = {"Masq": MASQUERADE, "Local": LOCAL, "Tunnel": TUNNEL, "Route": DIRECT}
UNKNOWN_FAMILY = 0

Entry = tuple[VirtualServerKey, str, int, str, str, str, str]

_PIECE_BYTES = 1 << 17  # some milliseconds on a slow node
_BUFFER_BYTES = 2 * _PIECE_BYTES  # a piece, and the read after which it is larger
HEADER_LINES = 3
_LINE = re.compile(
    r"  -> (\S+):([0-9A-F]{4}) +(\S+) +(-?\d+) +(-?\d+) +(-?\d+) *\n"  # a real server
    r"|(\S+)  (\S+) .*\n"  # a virtual server
    r"|(.*\n|.+)"
)


def pieces() -> Iterator[str]:
    """Yield the file in pieces of whole lines.

    One buffer takes all reads: the kernel gives a page at a time, and memory for each would cost more than the page.

    Raises:
        OSError: FileNotFoundError if ip_vs is not loaded.
    """
    buffer = memoryview(bytearray(_BUFFER_BYTES))
    size = 0  # bytes in the buffer
    with open(PATH, "rb", buffering=0) as file:
        while True:
            count = file.readinto(buffer[size:])
            size += count
            if size > _PIECE_BYTES or not count:
                text = bytes(buffer[:size])
                end = text.rfind(b"\n") + 1 if count else size  # a record may be larger than one read
                yield text[:end].decode("ascii")
                size -= end
                buffer[:size] = text[end:]
            if not count:
                return


class Records:
    """Parser for pieces of the file.

    ``seen`` counts the entries of each virtual server. A virtual server of a firewall mark has the family
    :data:`UNKNOWN_FAMILY`.
    """

    def __init__(self) -> None:
        self.seen: dict[VirtualServerKey, int] = {}
        self._server: VirtualServerKey | None = None
        self._addresses = Addresses()  # a large table repeats few addresses and ports: each is decoded once
        self._ports = _Ports()
        self._skip = HEADER_LINES

    def real_servers(self, text: str) -> Iterator[Entry]:
        """Yield each real server as (virtual server, address, port, method, weight, active, inactive).

        The forwarding method, the weight and the numbers of active and inactive connections are text.

        Raises:
            ValueError: a line has not the kernel's form.
        """
        server, addresses, ports = self._server, self._addresses, self._ports
        for raw, port, method, weight, active, inactive, protocol, endpoint, other in _LINE.findall(text):
            if raw and server is not None:
                yield server, addresses[raw], ports[port], method, weight, active, inactive
            elif self._skip:
                self._skip -= 1
            elif protocol:
                server = self._server = virtual_server(protocol, endpoint, addresses)
                self.seen[server] = self.seen.get(server, 0) + 1
            else:
                raise ValueError(f"{PATH}: not a line of this file: {other or raw!r}")


class Addresses(dict[str, str]):
    """Canonical addresses, by their spelling in the file."""

    def __missing__(self, raw: str) -> str:
        text = self[raw] = _address(raw)
        return text


class _Ports(dict[str, int]):
    """Port numbers, by their spelling in the file."""

    def __missing__(self, raw: str) -> int:
        port = self[raw] = int(raw, 16)
        return port


def virtual_server(protocol: str, endpoint: str, addresses: Mapping[str, str]) -> VirtualServerKey:
    """Return the key of a virtual server from its spelling in the file; ``addresses`` decodes addresses.

    Raises:
        KeyError, ValueError: the file has another form.
    """
    if protocol == "FWM":
        return VirtualServerKey("fwmark", "", int(endpoint, 16), UNKNOWN_FAMILY)
    name = protocol.lower()
    if name not in PROTOCOLS:
        raise ValueError(f"{PATH}: unknown protocol {protocol!r}")
    return VirtualServerKey(name, addresses[endpoint[:-5]], int(endpoint[-4:], 16), 6 if endpoint[0] == "[" else 4)


def _address(raw: str) -> str:
    if raw[:1] == "[":
        return inet_ntop(AF_INET6, bytes.fromhex(raw[1:-1].replace(":", "")))
    return inet_ntop(AF_INET, bytes.fromhex(raw))
