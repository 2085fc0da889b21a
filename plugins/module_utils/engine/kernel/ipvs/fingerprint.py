# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Fingerprint of the IPVS table: tell without decoding it whether another process has changed it.

A table of 5,000 virtual servers takes ten times as long to decode as to read. Traffic does not change the fingerprint.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from hashlib import blake2b

from ..decoding import decoding
from . import dump, proc
from .attributes import Command, Service
from .codec import body
from .connection import connect

# A real server's line ends with two numbers of connections (ip_vs_info_seq_show: %-10d). They do not fit if the kernel
# prints negative ones; the fingerprint changes then.
_REAL = "  -> "
_CONNECTION_CHARACTERS = 21
_TITLE = "IP Virtual Server "  # its line has the size of the connection table, which grows since Linux 7
_HEAD_BYTES = 4


class Fingerprint:
    """Hash of what the kernel shows, fed in the kernel's order.

    ``value`` is None until :meth:`end`, and stays None if the file does not show the whole table.
    """

    def __init__(self) -> None:
        self.value: bytes | None = None
        self._hash = blake2b(digest_size=16)

    def add_servers(self, payloads: Sequence[bytes]) -> None:
        """Add a dump of all virtual servers."""
        without = -counter_bytes(payloads[0]) if payloads else None
        for payload in payloads:
            self._hash.update(payload[:without])

    def add_piece(self, text: str) -> None:
        """Add a piece of the file."""
        lines = [
            line[:-_CONNECTION_CHARACTERS] if line.startswith(_REAL) else line
            for line in text.split("\n")
            if not line.startswith(_TITLE)
        ]
        self._hash.update("\n".join(lines).encode("ascii"))

    def end(self) -> None:
        """Set the value."""
        self.value = self._hash.digest()


def reading_fingerprint() -> Generator[None, None, bytes | None]:
    """Return the present fingerprint, in slices; None if the file cannot be read.

    Raises:
        MissingError: no ip_vs, or no right to read it.
    """
    fingerprint = Fingerprint()
    with connect() as socket:
        with decoding(dump.TABLE):
            fingerprint.add_servers(socket.dump(socket.message(Command.GET_SERVICE)))
        yield
        try:
            for piece in proc.pieces():
                fingerprint.add_piece(piece)
                yield
        except (OSError, ValueError):
            return None
    fingerprint.end()
    return fingerprint.value


def counter_bytes(payload: bytes) -> int:
    """Return the size of the counters of a virtual server, which the kernel writes last (ip_vs_genl_fill_service)."""
    size = 0
    counting = False
    for kind, value in body(payload).items():
        counting = counting or kind == Service.STATS
        if counting:
            size += _HEAD_BYTES + len(value) + 3 & ~3
    return size
