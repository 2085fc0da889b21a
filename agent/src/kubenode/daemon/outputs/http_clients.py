# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""HTTP clients: their limit, the eviction of clients above it, and the order of turns.

A source is an IPv4 address or an IPv6 network of 64 bits, from which one machine can choose its addresses. A new client
is always admitted. The client that has gone longest without a complete request makes room, first of the same source,
then of the source with the most clients. The next turn goes to the source that has waited longest, and within it to the
client that has waited longest. So neither many clients nor busy clients block a health check.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from heapq import nsmallest
from socket import AF_INET6, inet_pton
from typing import Protocol

from ..loop import Loop

MOST_CLIENTS = 512  # of all servers together: each costs a descriptor, and 8 KiB if it sends half a request
# a health check may share its source with others (address translation) and must not be the oldest before it can ask
MOST_OF_A_SOURCE = 256
# turns in a row before the loop looks for new clients again: a health check is one, and waits for these at the most
TURNS = 4
ACCEPTS_A_TURN = TURNS
_SWEEP_SECONDS = 1.0


class Source:
    """Clients of one address or network: how many there are, and when one of them had a turn."""

    __slots__ = ("clients", "name", "served")

    def __init__(self, name: str) -> None:
        self.name = name
        self.clients = 0
        self.served = 0


class Client(Protocol):
    """Connection as the clients' table sees it; ``served`` is the number of its last turn, 0 before the first one."""

    source: Source
    served: int
    since: float
    deadline: float

    def turn(self) -> bool:
        """Do one step; tell whether another one is due at once."""

    def close(self) -> None:
        """Close the connection."""


class Clients:
    """The clients of all servers of one loop.

    ``report`` is called with an exception that a turn raised, which costs only that client its connection.
    """

    def __init__(self, loop: Loop, report: Callable[[Exception], None] = lambda _error: None) -> None:
        self._loop = loop
        self._report = report
        self._all: dict[Client, None] = {}
        self._ready: dict[Client, None] = {}
        self._sources: dict[str, Source] = {}
        self._turn = 0
        self._scheduled = self._sweeping = False

    def __len__(self) -> int:
        return len(self._all)

    @property
    def new(self) -> int:
        """Return how many clients wait for their first turn."""
        return sum(not client.served for client in self._ready)

    def admit(self, address: str) -> Source:
        """Make room for one client from ``address``; return its source."""
        name = source_of(address)
        source = self._sources.get(name) or Source(name)
        if source.clients >= MOST_OF_A_SOURCE:
            self._evict(source.clients, source)
        elif len(self._all) >= MOST_CLIENTS:
            self._evict(max(other.clients for other in self._sources.values()), None)
        return source

    def add(self, client: Client) -> None:
        """Add a client; its first turn comes soon, since most requests have arrived already."""
        self._all[client] = None
        client.source.clients += 1
        self._sources[client.source.name] = client.source
        self.ready(client)
        if not self._sweeping:
            self._sweeping = True
            self._loop.after(_SWEEP_SECONDS, self._sweep)

    def discard(self, client: Client) -> None:
        """Forget a client."""
        if client in self._all:
            del self._all[client]
            client.source.clients -= 1
            if not client.source.clients:
                self._sources.pop(client.source.name, None)
        self._ready.pop(client, None)

    def ready(self, client: Client) -> None:
        """Give a client a turn when it is due."""
        self._ready[client] = None
        if not self._scheduled:
            self._scheduled = True
            self._loop.after(0, self._serve)

    def _evict(self, most: int, source: Source | None) -> None:
        """Close the client that has gone longest without a complete request.

        It is a client of ``source``, or, if that is None, of the sources with the most clients (``most``).
        """
        chosen = [
            client
            for client in self._all
            if client.source is source or (source is None and client.source.clients == most)
        ]
        min(chosen, key=lambda client: client.since).close()

    def _serve(self) -> None:
        self._scheduled = False
        for client in nsmallest(TURNS, self._ready, key=lambda client: (client.source.served, client.served)):
            if client not in self._ready:
                continue  # closed by a turn before its own
            del self._ready[client]
            self._turn += 1
            client.served = client.source.served = self._turn
            try:
                again = client.turn()
            except Exception as error:  # a fault in one answer must not cost other clients theirs
                self._report(error)
                client.close()
                continue
            if again:
                self._ready[client] = None
        if self._ready:
            self.ready(next(iter(self._ready)))

    def _sweep(self) -> None:
        """Close the clients that are over their deadline, except those that still wait for their first turn.

        On a busy machine that turn may come late, and the request may have arrived in time.
        """
        now = time.monotonic()
        for client in [client for client in self._all if client.served and client.deadline <= now]:
            client.close()
        self._sweeping = bool(self._all)
        if self._sweeping:
            self._loop.after(_SWEEP_SECONDS, self._sweep)


def source_of(address: str) -> str:
    """Return the source that a peer's address belongs to: the IPv4 address, or the /64 network of an IPv6 address.

    A listener of both families shows IPv4 addresses as IPv4-mapped ones.
    """
    if ":" not in address or "." in address:
        return address.rpartition(":")[2]
    return inet_pton(AF_INET6, address.partition("%")[0])[:8].hex()
