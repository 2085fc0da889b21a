# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""TCP relay between a client and a server that can cut, silence and refuse connections.

It adds network faults to servers without a switch for them.
"""

from __future__ import annotations

import socket
import struct
import threading
from contextlib import suppress

_RESET = struct.pack("ii", 1, 0)  # close() sends RST at once


class Relay:
    """Forwards TCP connections from the local ``port`` to a server, until :meth:`close`.

    ``carried`` counts the forwarded bytes of the server.
    """

    def __init__(self, host: str, port: int, address: str = "127.0.0.1") -> None:
        self.carried = 0
        self._address = address
        self._target = (host, port)
        self._wires: set[_Wire] = set()
        self._listener = socket.create_server((address, 0))
        self.port: int = self._listener.getsockname()[1]
        self._listen()

    def cut(self) -> None:
        """Reset all present connections; new ones work."""
        for wire in list(self._wires):
            wire.reset()

    def silence(self) -> None:
        """Silently stop the data on all present connections; new ones work."""
        for wire in list(self._wires):
            wire.flowing.clear()

    def down(self) -> None:
        """Reset all connections, and refuse new ones."""
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)  # wakes the accepting thread
        self._listener.close()
        self._thread.join()
        self.cut()

    def up(self) -> None:
        """Accept new connections again."""
        self._listener = socket.create_server((self._address, self.port))
        self._listen()

    close = down

    def _listen(self) -> None:
        self._thread = threading.Thread(target=self._accept, args=(self._listener,), daemon=True)
        self._thread.start()

    def _accept(self, listener: socket.socket) -> None:
        while True:
            try:
                client, _address = listener.accept()
            except OSError:
                return
            try:
                server = socket.create_connection(self._target, 10)
            except OSError:
                client.close()
                continue
            server.settimeout(None)
            wire = _Wire(self, client, server)
            self._wires.add(wire)
            wire.start()

    def count(self, size: int) -> None:
        """Count bytes of the server, before they are forwarded."""
        self.carried += size

    def gone(self, wire: _Wire) -> None:
        """Forget a connection that has ended."""
        self._wires.discard(wire)


class _Wire:
    """One connection: two threads, one for each direction."""

    def __init__(self, relay: Relay, client: socket.socket, server: socket.socket) -> None:
        self.flowing = threading.Event()
        self.flowing.set()
        self._relay = relay
        self._ends = (client, server)
        self._left = 2
        self._lock = threading.Lock()

    def start(self) -> None:
        for source, target in (self._ends, self._ends[::-1]):
            threading.Thread(target=self._carry, args=(source, target), daemon=True).start()

    def reset(self) -> None:
        for end in self._ends:
            with suppress(OSError):
                end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
                end.shutdown(socket.SHUT_RDWR)
        self.flowing.set()

    def _carry(self, source: socket.socket, target: socket.socket) -> None:
        with suppress(OSError):
            while data := source.recv(65536):
                self.flowing.wait()
                if source is self._ends[1]:
                    self._relay.count(len(data))
                target.sendall(data)
        with suppress(OSError):
            target.shutdown(socket.SHUT_WR)
        with self._lock:
            self._left -= 1
        if not self._left:
            for end in self._ends:
                end.close()
            self._relay.gone(self)
