# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Established connections by virtual server, from ``/proc/net/ip_vs_conn``.

``ActiveConn`` of ``/proc/net/ip_vs`` is more: the kernel counts half-open connections there, too, for two minutes after
their client has gone.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import NamedTuple

from ...model.net import canonical, unpack
from ..decoding import decoding

PATH = "/proc/thread-self/net/ip_vs_conn"  # /proc/net is the main thread's, perhaps of another namespace
_HEADER_LINES = 1
_ESTABLISHED = b" ESTABLISHED "


class Destination(NamedTuple):
    """Destination of a connection: protocol (``tcp`` or ``sctp``), canonical address, port."""

    protocol: str
    address: str
    port: int


def established() -> Counter[Destination]:
    """Return the number of established connections by destination; none if ip_vs is not loaded.

    UDP has no such state, so its flows are not counted.

    Raises:
        KernelError: the file cannot be decoded.
    """
    try:
        with open(PATH, "rb") as file, decoding(PATH):
            return Counter(_destinations(file))
    except FileNotFoundError:
        return Counter()


def _destinations(lines: Iterator[bytes]) -> Iterator[Destination]:
    for number, line in enumerate(lines):
        if number >= _HEADER_LINES and _ESTABLISHED in line:
            protocol, _client, _client_port, address, port = line.decode("ascii").split(None, 5)[:5]
            yield Destination(protocol.lower(), _address(address), int(port, 16))


def _address(raw: str) -> str:
    """Return an address of the file: eight hexadecimal digits for IPv4, eight groups for IPv6."""
    return canonical(raw) if ":" in raw else unpack(bytes.fromhex(raw))
