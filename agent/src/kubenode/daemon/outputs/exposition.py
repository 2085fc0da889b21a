# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Counters, gauges and histograms, and their text form (Prometheus exposition format 0.0.4).

A hundred lines instead of prometheus_client, which with all that it imports costs as much start-up time and memory as
the engine.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Sequence

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8; escaping=underscores"
Labels = tuple[str, ...]


class Metric:
    """A counter or gauge: one number for each combination of label values; shown from the first value on."""

    def __init__(self, kind: str, name: str, text: str, labels: Sequence[str] = ()) -> None:
        self.kind = kind
        self.name = name
        self.text = text
        self.labels = tuple(labels)
        self.values: dict[Labels, float] = {}

    def add(self, amount: float = 1, *labels: str) -> None:
        """Add to the value of these labels."""
        self.values[labels] = self.values.get(labels, 0) + amount

    def set(self, value: float, *labels: str) -> None:
        """Set the value of these labels."""
        self.values[labels] = value

    def replace(self, values: dict[Labels, float]) -> None:
        """Set all combinations at once; missing ones are no longer shown."""
        self.values = values

    def lines(self) -> Iterable[str]:
        """Yield the samples."""
        for labels, value in sorted(self.values.copy().items()):  # a copy: another thread may add values meanwhile
            yield f"{self.name}{braces(zip(self.labels, labels))} {number(value)}"


class PreparedMetric(Metric):
    """A metric whose samples are lines already: one scrape may have tens of thousands."""

    def __init__(self, kind: str, name: str, text: str, labels: Sequence[str] = ()) -> None:
        super().__init__(kind, name, text, labels)
        self.samples: list[str] = []

    def lines(self) -> Iterable[str]:
        """Return the samples."""
        return self.samples or super().lines()


class Histogram:
    """A histogram with upper bounds ``buckets``, in seconds where the name says so."""

    kind = "histogram"

    def __init__(self, name: str, text: str, labels: Sequence[str], buckets: Sequence[float]) -> None:
        self.name = name
        self.text = text
        self.labels = tuple(labels)
        self.buckets = tuple(buckets)
        self._counts: dict[Labels, list[int]] = {}
        self._sums: dict[Labels, float] = {}

    def observe(self, value: float, *labels: str) -> None:
        """Count one observation."""
        counts = self._counts.setdefault(labels, [0] * (len(self.buckets) + 1))
        counts[bisect_left(self.buckets, value)] += 1
        self._sums[labels] = self._sums.get(labels, 0.0) + value

    def lines(self) -> Iterable[str]:
        """Yield the samples; bucket counts are cumulative."""
        bounds = [number(bound) for bound in self.buckets] + ["+Inf"]
        for labels, counts in sorted(self._counts.copy().items()):  # a copy: another thread may observe meanwhile
            pairs = list(zip(self.labels, labels))
            total = 0
            for bound, count in zip(bounds, list(counts)):
                total += count
                yield f"{self.name}_bucket{braces([*pairs, ('le', bound)])} {total}"
            yield f"{self.name}_sum{braces(pairs)} {number(self._sums.get(labels, 0.0))}"
            yield f"{self.name}_count{braces(pairs)} {total}"


def exposition(metrics: Iterable[Metric | Histogram]) -> str:
    """Return the text form of all metrics that have values, by name."""
    lines: list[str] = []
    for metric in sorted(metrics, key=lambda metric: metric.name):
        samples = list(metric.lines())
        if samples:
            lines.append(f"# HELP {metric.name} {metric.text}")
            lines.append(f"# TYPE {metric.name} {metric.kind}")
            lines.extend(samples)
    return "\n".join(lines) + "\n"


def braces(pairs: Iterable[tuple[str, str]]) -> str:
    """Return ``{name="value",…}``, or "" for no pairs."""
    text = ",".join(f'{name}="{_escaped(value)}"' for name, value in pairs)
    return "{" + text + "}" if text else ""


def number(value: float) -> str:
    """Return a number as Go's clients print it: whole ones without a point."""
    return str(int(value)) if value == int(value) and abs(value) < 1e15 else repr(float(value))


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
