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

What it does not say: thresholds, tunnel details, the family of a firewall mark, and bypass (shown as ``Masq``). Addresses are in
full: hexadecimal digits of a number for IPv4, eight groups for IPv6.
"""

from __future__ import annotations

from collections.abc import Iterator
from socket import AF_INET, AF_INET6, inet_ntop

from ...model.ipvs import DIRECT, LOCAL, MASQUERADE, PROTOCOLS, TUNNEL, VirtualServerKey

PATH = "/proc/thread-self/net/ip_vs"  # /proc/net is that of the main thread, in another namespace perhaps
FORWARDING_METHODS = {"Masq": MASQUERADE, "Local": LOCAL, "Tunnel": TUNNEL, "Route": DIRECT}
UNKNOWN_FAMILY = 0

Entry = tuple[VirtualServerKey, str, int, str, int, int, int]

_READ_BYTES = 1 << 20


def read_text() -> str:
    """Return the file.

    Raises:
        OSError: FileNotFoundError if ip_vs is not loaded.
    """
    with open(PATH, "rb", buffering=0) as file:
        parts: list[bytes] = []
        while True:
            part = file.read(_READ_BYTES)
            if not part:
                return b"".join(parts).decode("ascii")
            parts.append(part)


def real_servers(text: str) -> Iterator[Entry]:
    """Yield each real server: virtual server, address, port, forwarding method, weight, active and inactive connections.

    The virtual server of a firewall mark has the family :data:`UNKNOWN_FAMILY`.

    Raises:
        ValueError: a line is not what the kernel prints.
    """
    server: VirtualServerKey | None = None
    addresses: dict[str, str] = {}  # a large table repeats few addresses: decode each once
    lines = iter(text.split("\n"))
    for _header in range(3):
        next(lines, "")
    for line in lines:
        if line.startswith("  -> "):
            if server is None:
                raise ValueError(f"{PATH}: a real server without a virtual server: {line!r}")
            endpoint, method, weight, active, inactive = line[5:].split()
            raw = endpoint[:-5]
            address = addresses.get(raw)
            if address is None:
                address = addresses[raw] = _address(raw)
            yield server, address, int(endpoint[-4:], 16), FORWARDING_METHODS[method], int(weight), int(active), int(inactive)
        elif line:
            server = _virtual_server(line)


def _virtual_server(line: str) -> VirtualServerKey:
    protocol, endpoint = line.split(None, 2)[:2]
    if protocol == "FWM":
        return VirtualServerKey("fwmark", "", int(endpoint, 16), UNKNOWN_FAMILY)
    name = protocol.lower()
    if name not in PROTOCOLS:
        raise ValueError(f"{PATH}: unknown protocol: {line!r}")
    return VirtualServerKey(name, _address(endpoint[:-5]), int(endpoint[-4:], 16), 6 if endpoint[0] == "[" else 4)


def _address(raw: str) -> str:
    if raw[0] == "[":
        return inet_ntop(AF_INET6, bytes.fromhex(raw[1:-1].replace(":", "")))
    return inet_ntop(AF_INET, bytes.fromhex(raw))
