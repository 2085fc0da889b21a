# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Traffic of each Service port in the metrics: all of them, or the busiest.

Imported only if ``metrics.services`` asks for it. Everything here runs in the thread that answers HTTP.

The kernel's counters belong to a virtual server, and begin again when it is made again. The metrics belong to a Service
port, and never go backwards: each reading adds the differences from the reading before. A counter that has become
smaller has begun again at zero, so it counts as a whole. The first reading only sets the start, so that a restart of
the agent counts nothing twice. A Service that is removed and comes back continues with its totals.

Most virtual servers of a large cluster are idle: each costs one comparison. Its Service port is looked up again after
traffic, and else once a minute.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping, Sequence
from heapq import nlargest
from operator import attrgetter
from typing import Any, Callable, Protocol

from ...engine.errors import EngineError
from ...engine.model.ipvs import VirtualServerKey
from .exposition import braces
from .metrics import SERVICE_LABELS, Metrics

ServicePort = tuple[str, str, str]  # namespace, name, port
Counters = Mapping[VirtualServerKey, Any]  # statistics.Traffic

_MOST_GONE = 10_000  # Services without a virtual server whose totals are kept
_NAMED = 60.0  # seconds after which the Service port of an idle virtual server is looked up again
_HALF_LIFE = 600.0  # seconds after which a packet counts half for the choice of the busiest


class _Series:
    """Totals of one Service port; ``load`` are its packets, of which older ones count less.

    ``servers`` are its virtual servers in the last reading. ``samples`` are lines of the metrics, () after a change.
    """

    __slots__ = ("active", "bytes", "connections", "labels", "load", "packets", "samples", "servers", "text")

    def __init__(self, labels: ServicePort) -> None:
        self.labels = labels
        self.text = braces(zip(SERVICE_LABELS, labels))
        self.samples: tuple[str, ...] = ()
        self.connections = self.packets = self.bytes = self.active = 0
        self.load = 0.0
        self.servers: list[_Server] = []


class _Server:
    """Virtual server: its last counters (None: not read yet), the series that they count for, and whether it is there.

    One that is not there has a Service port all the same: a dump may lack an entry while the kernel's table is resized.
    One that is settled has no active connection: it had none when it was last asked, and no traffic since then.
    """

    __slots__ = ("is_present", "is_settled", "key", "series", "traffic")

    def __init__(self, key: VirtualServerKey, series: _Series) -> None:
        self.key = key
        self.series = series
        self.traffic: Any = None
        self.is_present = self.is_settled = False


class Reader(Protocol):
    """Reader of the kernel's table; :class:`~..engine.kernel.ipvs.usage.UsageReader` is the real one."""

    def counters(self) -> Counters:
        """Return the counters of all virtual servers."""

    def active(self, of: Collection[VirtualServerKey]) -> Mapping[VirtualServerKey, int]:
        """Return active connections where there are some, at least of these virtual servers."""


class ServiceMetrics:
    """Reads the kernel at each rendering of the metrics, which happens once a second at most.

    ``most`` limits the Service ports, None: all. ``port_of`` names the Service port of a virtual server, None for
    none; the agent's thread may change its data meanwhile.
    """

    def __init__(
        self,
        metrics: Metrics,
        most: int | None,
        reader: Reader,
        port_of: Callable[[VirtualServerKey], ServicePort | None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._metrics = metrics
        self._most = most
        self._reader = reader
        self._port_of = port_of
        self._clock = clock
        self._read_at: float | None = None
        self._name_at = 0.0
        self._series: dict[ServicePort, _Series] = {}
        self._servers: dict[VirtualServerKey, _Server] = {}
        self._sorted: list[_Series] | None = None  # those with virtual servers, by name; None after a change

    def collect(self) -> None:
        """Update the metrics; if the kernel cannot be read, they have no samples."""
        try:
            self._add(self._reader.counters())
            shown = self._chosen()
            self._count_active(shown)
        except EngineError:
            shown = ()
        self._show(shown)

    def _chosen(self) -> Sequence[_Series]:
        """Return the series to show, by name."""
        if self._sorted is None:
            self._sorted = sorted(filter(attrgetter("servers"), self._series.values()), key=attrgetter("labels"))
            surplus = max(0, len(self._series) - len(self._sorted) - _MOST_GONE)
            for gone in [series for series in self._series.values() if not series.servers][:surplus]:
                del self._series[gone.labels]  # gone for longest
        if self._most is None or len(self._sorted) <= self._most:
            return self._sorted
        return sorted(nlargest(self._most, self._sorted, key=attrgetter("load")), key=attrgetter("labels"))

    def _count_active(self, shown: Collection[_Series]) -> None:
        asked = [server for series in shown for server in series.servers if not server.is_settled]
        active = self._reader.active([server.key for server in asked])
        counts: dict[_Series, int] = {}
        for server in asked:
            server.is_settled = True
        for key, count in active.items():
            used = self._servers.get(key)
            if used is not None:
                used.is_settled = False
                counts[used.series] = counts.get(used.series, 0) + count
        for series in shown:
            count = counts.get(series, 0)
            if count != series.active:
                series.active = count
                series.samples = ()

    def _add(self, counters: Counters) -> None:
        """Add a reading to the series."""
        now = self._clock()
        is_first = self._read_at is None
        elapsed = now - self._read_at if self._read_at is not None else 0.0
        fading = 0.5 ** (elapsed / _HALF_LIFE)
        self._read_at = now
        naming = now >= self._name_at
        if naming:
            self._name_at = now + _NAMED
        for series in self._series.values():
            series.load *= fading
        servers, seen = self._servers, 0
        for key, traffic in counters.items():
            server = servers.get(key)
            if server is None or server.traffic is not traffic or naming or not server.is_present:
                server = self._use(key, traffic, is_first)
            seen += server is not None
        if seen < len(servers):
            for key in servers.keys() - counters.keys():
                self._lose(key)

    def _use(self, key: VirtualServerKey, traffic: Any, is_first: bool) -> _Server | None:
        """Count a virtual server for its Service port; return None if it has none."""
        labels = self._port_of(key)
        if labels is None:
            if key in self._servers:
                self._leave(self._servers.pop(key))
            return None
        series = self._series.get(labels) or self._series.setdefault(labels, _Series(labels))
        server = self._servers.get(key) or self._servers.setdefault(key, _Server(key, series))
        if server.series is not series or not server.is_present:
            self._leave(server)
            server.series, server.is_present, server.is_settled = series, True, False
            series.servers.append(server)
            self._sorted = None
        before, server.traffic = server.traffic, traffic
        if before != traffic:
            server.is_settled = False
            if before is not None or not is_first:
                _count(series, before, traffic)
        return server

    def _leave(self, server: _Server) -> None:
        if server.is_present:
            server.is_present = False
            server.series.servers.remove(server)
            self._sorted = None

    def _lose(self, key: VirtualServerKey) -> None:
        """Note that a reading lacks a virtual server."""
        server = self._servers[key]
        self._leave(server)
        if self._port_of(key) is None:
            del self._servers[key]

    def _show(self, shown: Collection[_Series]) -> None:
        metrics = self._metrics
        of_services = (
            metrics.service_connections, metrics.service_packets, metrics.service_bytes, metrics.service_active,
        )  # fmt: skip
        names = [metric.name for metric in of_services]
        for series in shown:
            if not series.samples:
                values = (series.connections, series.packets, series.bytes, series.active)
                series.samples = tuple(f"{name}{series.text} {value}" for name, value in zip(names, values))
        for at, metric in enumerate(of_services):
            metric.samples = [series.samples[at] for series in shown]


def _count(series: _Series, before: Any, traffic: Any) -> None:
    """Add what has come since the reading before; a counter that has begun again counts as a whole."""
    connections, packets, octets = now = _totals(traffic)
    if before is not None:
        then = _totals(before)
        if all(one >= other for one, other in zip(now, then)):
            connections, packets, octets = (one - other for one, other in zip(now, then))
    series.connections += connections
    series.packets += packets
    series.bytes += octets
    series.load += packets
    series.samples = ()


def _totals(traffic: Any) -> tuple[int, int, int]:
    return traffic.connections, traffic.packets_in + traffic.packets_out, traffic.bytes_in + traffic.bytes_out
