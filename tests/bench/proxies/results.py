# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Samples of all proxies at all sizes, and the rows made from them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from statistics import median
from typing import NamedTuple

from ..report import Row, value
from .api import ENDPOINTS, FEW, endpoints_of
from .subjects import AGENT_NFTABLES, AGENTS, NFTABLES, PEERS, Subject

Samples = dict[tuple[str, str, int], list[float]]  # figure, name of the proxy, Services


class Figure(NamedTuple):
    """A figure that each proxy has at each size.

    ``bar`` limits the agent's value beside that of kube-proxy's nftables mode, ``limits`` its own value by size.
    ``zero`` is subtracted from the agent's value before the limit counts: it is the bare node's.
    """

    key: str
    what: str
    unit: str = "s"
    bar: float | None = None
    limits: Mapping[int, float] | None = None


LARGEST = 44_125  # Services
FIGURES = (
    Figure(
        "different",
        "`ipvsadm -Sn` and the members of all sets: lines that differ from those of kube-proxy's ipvs mode",
        "lines",
        limits={202: 0, 1002: 0},
    ),
    Figure("cold", "cold start to everything in place", bar=1 / 5, limits={LARGEST: 90}),
    Figure("cold cpu", "cold start: CPU of the node"),
    Figure(
        "event",
        "an endpoint is added, until the kernel has it: median",
        limits={202: 0.008, 1002: 0.008, 5000: 0.008, LARGEST: 0.008},
    ),
    Figure("event p99", "an endpoint is added, until the kernel has it: 99th percentile"),
    Figure("idle", "CPU in a minute in which nothing changes, beyond the bare node", limits={5000: 0.1}),
    Figure("peak", "resident memory at its largest", "MiB", limits={LARGEST: 700}),
    Figure("resident", "resident memory in a quiet time", "MiB"),
    Figure("start bytes", "bytes from the API server for a start", "MB"),
    Figure("start api", "CPU of the API server for a start"),
    Figure("steady", "10 changes a second: median"),
    Figure("steady p99", "10 changes a second: 99th percentile"),
    Figure("steady cpu", "10 changes a second: CPU of the node in 30 s"),
    Figure("steady bytes", "10 changes a second: bytes from the API server in 30 s", "MB", bar=1.1),
    Figure("steady api", "10 changes a second: CPU of the API server in 30 s", bar=1.1),
    Figure("rate pod", "time of a new connection through the last Service, from a pod"),
    Figure("rate host", "time of a new connection through the last Service, from the node"),
    Figure("rate outside", "time of a new connection through the last Service, from outside"),
    Figure("first", "the first packet of a connection through the last Service, until its answer, from a pod"),
    Figure("failed removed", "failed new connections while an endpoint is removed", "connections"),
    Figure("failed dies", "failed new connections while a pod dies at the moment of its removal", "connections"),
    Figure("failed killed", "failed new connections while the proxy is killed", "connections"),
)
DIRECT = "a direct connection"


def percentile(seconds: Sequence[float], share: float) -> float:
    """Return a percentile: the value that ``share`` of the values do not exceed."""
    return sorted(seconds)[min(len(seconds) - 1, int(share * len(seconds)))]


def cluster_of(services: int) -> str:
    """Return a cluster's size in words."""
    if services <= FEW:
        return f"{services:,} services x {ENDPOINTS} endpoints"
    return f"{services:,} services with {endpoints_of(services):,} endpoints"


def rows(samples: Samples, version: str, notes: dict[str, str]) -> list[Row]:
    """Return the rows: for each figure and size both agents beside modes of kube-proxy, and their own limits."""
    sizes = sorted({services for _figure, _name, services in samples})
    every = [(figure, size, agent) for figure in FIGURES for size in sizes for agent in AGENTS]
    return [row for each in every for row in _rows(*each, samples, version, notes)]


def _rows(
    figure: Figure, size: int, agent: Subject, samples: Samples, version: str, notes: dict[str, str]
) -> Iterable[Row]:
    ours = samples.get((figure.key, agent.name, size))
    if not ours:
        return
    what = f"{figure.what}, {cluster_of(size)}" + (", rules in nftables" if agent is AGENT_NFTABLES else "")
    note = notes.get(f"{figure.key} {agent.name} {size}", notes.get(f"{figure.key} {size}", ""))
    zero = samples.get((figure.key, DIRECT, size))
    limit = (figure.limits or {}).get(size)
    peers = [peer for peer in PEERS if PEERS[peer] is agent and (figure.key, peer.name, size) in samples]
    if limit is not None or not peers:
        yield Row(what, "", ours, bar=limit, unit=figure.unit, note=note)
        note = ""
    if zero:
        yield Row(what, DIRECT, ours, zero, unit=figure.unit)
    for peer in peers:
        theirs = samples[figure.key, peer.name, size]
        against = f"kube-proxy {version} {peer.name}"
        if not median(theirs):  # no ratio to nothing
            yield Row(what, "", ours, unit=figure.unit, note=f"{against}: {value(0, figure.unit)}")
            continue
        bar = figure.bar if _has_bar(figure, peer) else None
        yield Row(what, against, ours, theirs, bar=bar, unit=figure.unit, note=note)
        note = ""


def _has_bar(figure: Figure, peer: Subject) -> bool:
    """Return true if the figure's bar counts beside this peer: the mode that users would pick instead."""
    return figure.bar is not None and peer is NFTABLES
