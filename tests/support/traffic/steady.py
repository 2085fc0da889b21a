# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Continuous traffic during a test's actions.

It consists of new connections, one after the other, and of one kept connection. No client uses a source port again
soon: IPVS cannot tell two connections of one client port to one pod apart. And when IPVS forgets an old connection, the
kernel deletes the connection tracking entry of a later one with the same ports (ip_vs_conn_drop_conntrack), even if
kube-proxy's rules balance that.
"""

from __future__ import annotations

import errno
import itertools
import threading
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

from ..processes.namespace import inside
from ..waiting import eventually
from .conversation import Talk, Target

# of each namespace; the kernel remembers a connection for up to two minutes
_SOURCE_PORTS: defaultdict[str, Iterator[int]] = defaultdict(lambda: itertools.cycle(range(2048, 65536)))


class Steady:
    """Client in a namespace, which runs from its creation until :meth:`close`.

    ``failures`` has the error of every request without an answer, ``clients`` every client address that a pod saw in a
    new connection.
    """

    def __init__(self, namespace: str, target: Target) -> None:
        self.requests = 0
        self.exchanges = 0
        self.failures: list[str] = []
        self.clients: set[str] = set()
        self._namespace, self._target = namespace, target
        self._kept = self._connect()
        self.kept_by = self._kept.say().name
        self._retransmitted = self._count()
        self._ending = threading.Event()
        self._threads = [threading.Thread(target=work, daemon=True) for work in (self._ask, self._exchange)]
        for thread in self._threads:
            thread.start()

    def more(self, count: int) -> None:
        """Wait for ``count`` more requests and exchanges; fail if one has failed."""
        requests, exchanges = self.requests + count, self.exchanges + count
        eventually(lambda: self.failures or (self.requests >= requests and self.exchanges >= exchanges))
        assert self.failures == [], self.failures

    @property
    def retransmitted(self) -> int:
        """Number of retransmitted first packets of connections in this namespace."""
        return self._count() - self._retransmitted

    def close(self) -> None:
        """End both kinds of traffic."""
        self._ending.set()
        for thread in self._threads:
            thread.join(60)
        self._kept.close()

    def _connect(self) -> Talk:
        while True:
            try:
                return Talk(self._namespace, self._target, port=next(_SOURCE_PORTS[self._namespace]))
            except OSError as error:
                if error.errno != errno.EADDRINUSE:
                    raise

    def _ask(self) -> None:
        while not self._ending.wait(0.005):
            try:
                talk = self._connect()
                self.clients.add(talk.say().client)
                talk.abort()
                self.requests += 1
            except OSError as error:
                self.failures.append(f"new connection after {self.requests}: {error!r}")

    def _exchange(self) -> None:
        while not self._ending.wait(0.005):
            try:
                answer = self._kept.say(str(self.exchanges))
                assert (answer.name, answer.line) == (self.kept_by, str(self.exchanges))
                self.exchanges += 1
            except OSError as error:
                self.failures.append(f"kept connection after {self.exchanges}: {error!r}")
                return

    def _count(self) -> int:
        with inside(self._namespace):
            names, values = Path("/proc/thread-self/net/netstat").read_text().splitlines()[:2]
        return int(dict(zip(names.split(), values.split(), strict=True))["TCPSynRetrans"])
