# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Traffic of each Service port in the metrics: all of them, or the busiest.

Imported only if ``metrics.services`` asks for it. Everything here runs in the thread that answers HTTP.

The kernel's counters belong to a virtual server, and begin again when it is made again. The metrics belong to a Service
port, and never go backwards: each reading adds the differences from the reading before. A counter that has become
smaller has begun again at zero, so it counts as a whole. The first reading only sets the start, so that a restart of
the agent counts nothing twice. A Service that is removed and comes back continues with its totals.
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
_HALF_LIFE = 600.0  # seconds after which a packet counts half for the choice of the busiest


class _Series:
    """Totals of one Service port; ``load`` are its packets, of which older ones count less.

    ``samples`` are the lines of the metrics, () after a change.
    """

    __slots__ = ("active", "bytes", "connections", "labels", "load", "packets", "samples", "text")

    def __init__(self, labels: ServicePort) -> None:
        self.labels = labels
        self.text = braces(zip(SERVICE_LABELS, labels))
        self.samples: tuple[str, ...] = ()
        self.connections = self.packets = self.bytes = self.active = 0
        self.load = 0.0


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
        self._last: dict[VirtualServerKey, tuple[int, int, int]] = {}
        self._series: dict[ServicePort, _Series] = {}
        self._series_of: dict[VirtualServerKey, _Series] = {}  # in the last reading
        # May have active connections: they had some when they were last asked, or have had traffic since then. The
        # others have none, and most virtual servers of a large cluster are idle.
        self._unsettled: set[VirtualServerKey] = set()
        self._sorted: list[_Series] = []

    def collect(self) -> None:
        """Update the metrics; if the kernel cannot be read, they have no samples."""
        try:
            shown = self._chosen(self._add(self._reader.counters()))
            self._count_active(shown)
        except EngineError:
            shown = ()
        self._show(shown)

    def _chosen(self, present: Mapping[ServicePort, _Series]) -> Sequence[_Series]:
        """Return the series to show, by name."""
        if self._most is not None and len(present) > self._most:
            busiest = nlargest(self._most, present.values(), key=attrgetter("load"))
            return sorted(busiest, key=attrgetter("labels"))
        if present.keys() != {series.labels for series in self._sorted}:
            self._sorted = [present[labels] for labels in sorted(present)]
        return self._sorted

    def _count_active(self, shown: Collection[_Series]) -> None:
        series_of, unsettled = self._series_of, self._unsettled
        if self._most is None:
            asked = {key for key in unsettled if key in series_of}
        else:
            chosen = {series.labels for series in shown}
            asked = {key for key, series in series_of.items() if series.labels in chosen and key in unsettled}
        active = self._reader.active(asked)
        counts: dict[_Series, int] = {}
        for key, count in active.items():
            series_of_key = series_of.get(key)
            if series_of_key is not None:
                counts[series_of_key] = counts.get(series_of_key, 0) + count
        for series in shown:
            count = counts.get(series, 0)
            if count != series.active:
                series.active = count
                series.samples = ()
        unsettled.difference_update(asked)
        unsettled.update(active)
        if len(unsettled) > len(self._last):
            unsettled.intersection_update(self._last)

    def _add(self, counters: Counters) -> dict[ServicePort, _Series]:
        """Add a reading; return the series of the Service ports that have a virtual server."""
        now = self._clock()
        is_first = self._read_at is None
        elapsed = now - self._read_at if self._read_at is not None else 0.0
        fading = 0.5 ** (elapsed / _HALF_LIFE)
        self._read_at = now
        for series in self._series.values():
            series.load *= fading
        known, last, port_of, moved = self._series, self._last, self._port_of, self._unsettled
        series_of: dict[VirtualServerKey, _Series] = {}
        present: dict[ServicePort, _Series] = {}
        latest: dict[VirtualServerKey, tuple[int, int, int]] = {}
        for key, traffic in counters.items():
            labels = port_of(key)
            if labels is None:
                continue
            series = series_of[key] = present[labels] = known.get(labels) or known.setdefault(labels, _Series(labels))
            connections, packets = traffic.connections, traffic.packets_in + traffic.packets_out
            octets = traffic.bytes_in + traffic.bytes_out
            latest[key] = (connections, packets, octets)
            before = last.get(key)
            if before == (connections, packets, octets):
                continue
            moved.add(key)
            if before is None and is_first:
                continue
            if before is not None and connections >= before[0] and packets >= before[1] and octets >= before[2]:
                connections, packets, octets = connections - before[0], packets - before[1], octets - before[2]
            series.connections += connections
            series.packets += packets
            series.bytes += octets
            series.load += packets
            series.samples = ()
        for key in last.keys() - latest.keys():
            if key not in counters and port_of(key) is not None:
                latest[key] = last[key]  # a dump may lack an entry while the kernel's table is resized
        self._last, self._series_of = latest, series_of
        self._forget(present)
        return present

    def _forget(self, present: Mapping[ServicePort, _Series]) -> None:
        """Forget the totals of the Services that are gone for longest, if there are very many."""
        surplus = len(self._series) - len(present) - _MOST_GONE
        for labels in [labels for labels in self._series if labels not in present][: max(0, surplus)]:
            del self._series[labels]

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
