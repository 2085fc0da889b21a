# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Section of the benchmarks: the agent beside kube-proxy's three modes, on one node, with one API server.

BENCH_PROXIES_SIZES are the numbers of Services, by default `202,1002,5000,44125`. BENCH_PROXIES_IDLE are the seconds of
a quiet time, by default 60. BENCH_PROXIES_ROUNDS is the number of cold starts of each proxy, by default 3.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterable
from statistics import median
from typing import TYPE_CHECKING

from lab import naming, netns
from lab.progress import Progress

from ..node import DIRECTORY
from ..report import Row
from . import plot, programs, results, servers, traffic
from .api import Api
from .observer import Observer
from .results import DIRECT, Samples, percentile
from .session import Changes, Session
from .subjects import AGENT, AGENTS, IPVS, KUBE_PROXY, KUBECONFIG, PEERS, Subject

if TYPE_CHECKING:
    from pathlib import Path

    from ..node import Node

SIZES = tuple(map(int, os.environ.get("BENCH_PROXIES_SIZES", "202,1002,5000,44125").split(",")))
IDLE = float(os.environ.get("BENCH_PROXIES_IDLE", "60"))
ROUNDS = int(os.environ.get("BENCH_PROXIES_ROUNDS", "3"))
SETTLE = 35.0  # seconds: the first periodic sync of each proxy has ended, and no real server drains yet
EVENTS = 12
TRAFFIC_SIZE = 1002 if 1002 in SIZES else max(SIZES)  # where steady changes and the data path are measured
STEADY = 30.0  # seconds
_SLOW_START = 20.0  # seconds: a proxy whose start takes longer is started once
_ENOUGH_SIZES = 3
_MEGA = 1e6


def measure(node: Node) -> list[Row]:
    """Return the rows; remove everything that the proxies made."""
    given = programs.from_environment()
    remark = programs.missing(given)
    compared = bool(given.kube_proxy and given.has_api)
    subjects = [*AGENTS, *(PEERS if compared else ())]
    with netns.inside(node.lab.namespace):
        api = Api(servers.start(given), max(SIZES))
        try:
            comparison = Comparison(node, api, subjects)
            try:
                comparison.install(given.kube_proxy if compared else None)
                for size in SIZES:
                    comparison.at(size)
            finally:
                comparison.close()
        finally:
            api.close()
    _draw(comparison.samples)
    version = programs.version(given.kube_proxy) if compared and given.kube_proxy else ""
    rows = results.rows(comparison.samples, version, comparison.notes)
    return [*rows, Row(remark, "", [0], unit="programs compared")] if remark else rows


def _draw(samples: Samples) -> None:
    """Write the picture of the documentation, if the sizes suffice for lines."""
    if len(SIZES) < _ENOUGH_SIZES:
        return
    try:
        plot.draw(samples, plot.PICTURE)
    except ImportError:
        Progress("bench: ")("without matplotlib there is no picture: run `make bench`, which installs it")


class Comparison:
    """Samples of all proxies, and what is needed to take them."""

    def __init__(self, node: Node, api: Api, subjects: list[Subject]) -> None:
        self.samples: Samples = {}
        self.notes: dict[str, str] = {}
        self._node = node
        self._api = api
        self._subjects = subjects
        self._progress = Progress("bench: ")
        self._observer = Observer(node)
        self._session = Session(node, api, self._observer)

    def install(self, kube_proxy: Path | None) -> None:
        """Put program, kubeconfig and configurations on the node."""
        self._api.register(naming.node_addresses(0).ipv4)
        if kube_proxy:
            self._node.run(f"cat >{KUBE_PROXY} && chmod +x {KUBE_PROXY}", kube_proxy.read_bytes())
        self._node.run(f"cat >{KUBECONFIG}", self._api.kubeconfig())
        for subject in {*self._subjects, IPVS}:
            self._node.run(f"cat >{subject.file}", json.dumps(subject.configuration()))
        self._node.run(f"mkdir -p {DIRECTORY}/work && modprobe -a nf_tables nft_numgen nft_fib_ipv4 xt_set || true")

    def at(self, size: int) -> None:
        """Measure all proxies at one size, taking turns."""
        self._progress(f"{size:,} Services …")
        self._api.grow(size)
        with_traffic = None
        if size == TRAFFIC_SIZE:
            self._api.add(traffic.objects())
            with_traffic = traffic.Traffic(self._node, self._api, self._observer)
        self._session.prepare()
        self._observer.do("stop")
        subjects = [subject for subject in self._subjects if size <= subject.largest]
        bare = self._session.idle(IDLE)
        states: dict[str, list[str]] = {}
        for number in range(ROUNDS):
            for subject in subjects[:: -1 if number % 2 else 1]:
                cold = self.samples.get(("cold", subject.name, size), [])
                if number and median(cold) > _SLOW_START:
                    continue
                self._progress(f"{size:,} Services, round {number + 1}: {subject.name} …")
                self._start(subject, size)
                if not number:
                    states[subject.name] = self._running(subject, size, with_traffic)
                self._session.stop()
        self._compare(states, size)
        zero = min(bare, self._session.idle(IDLE))
        for subject in subjects:
            self.samples["idle", subject.name, size] = [
                max(0.0, seconds - zero) for seconds in self.samples["idle", subject.name, size]
            ]
        left_out = [subject.name for subject in self._subjects if subject not in subjects]
        notes = [f"the bare node takes {zero:.2f} s of CPU in a minute"]
        if left_out:
            notes.append(f"kube-proxy {' and '.join(left_out)} not measured: too slow at this size")
        self.notes[f"idle {size}"] = "; ".join(notes)
        self.notes[f"cold {size}"] = "; ".join(notes[1:])
        if with_traffic:
            with_traffic.close()

    def _start(self, subject: Subject, size: int) -> None:
        start = self._session.start(subject)
        self._add(
            subject.name,
            size,
            {
                "cold": [start.seconds],
                "cold cpu": [start.cpu],
                "start bytes": [start.cost.sent / _MEGA],
                "start api": [start.cost.cpu],
            },
        )

    def _running(self, subject: Subject, size: int, with_traffic: traffic.Traffic | None) -> list[str]:
        """Measure a proxy that has started; return the kernel's state after its periodic sync.

        kube-proxy's first sync leaves KUBE-IPVS-IPS empty: it puts the addresses there that it bound in an earlier one.
        """
        time.sleep(SETTLE)
        self._add(subject.name, size, {"idle": [self._session.idle(IDLE)], "resident": [self._session.memory()[1]]})
        state = self._session.state(subject)
        changes = self._session.isolated(EVENTS)
        self._add(subject.name, size, {"event": changes.seconds, "event p99": [percentile(changes.seconds, 0.99)]})
        if subject.is_agent:
            self.notes[f"event {subject.name} {size}"] = (
                "from the arrival of the change at the node;"
                f" from its request to the API server {1000 * median(changes.written):.1f} ms (median)"
            )
        self._add(subject.name, size, {"peak": [self._session.memory()[0]]})
        if with_traffic:
            self._steady(subject, size, self._session.steady(STEADY))
            self._add(DIRECT, size, with_traffic.direct())  # beside each proxy: the machine's load changes
            self._add(subject.name, size, with_traffic.measure())
        return state

    def _steady(self, subject: Subject, size: int, changes: Changes) -> None:
        self._add(
            subject.name,
            size,
            {
                "steady": changes.seconds,
                "steady p99": [percentile(changes.seconds, 0.99)],
                "steady cpu": [changes.cpu],
                "steady bytes": [changes.cost.sent / _MEGA],
                "steady api": [changes.cost.cpu],
            },
        )
        self.notes[f"steady cpu {size}"] = "with the bench's own look at the kernel, on the same processor"

    def _add(self, name: str, size: int, samples: dict[str, list[float]]) -> None:
        for key, values in samples.items():
            self.samples.setdefault((key, name, size), []).extend(values)
        plot.save(self.samples)  # also for a run that is interrupted
        shown: Iterable[str] = (f"{key} {median(values):.4g}" for key, values in samples.items())
        self._progress(f"{name}: {', '.join(shown)}")

    def _compare(self, states: dict[str, list[str]], size: int) -> None:
        """Count the lines in which the agent's state and that of kube-proxy's ipvs mode differ."""
        if IPVS.name not in states:
            return
        different = sorted(set(states[AGENT.name]) ^ set(states[IPVS.name]))
        self._add(AGENT.name, size, {"different": [float(len(different))]})
        if different:
            self.notes[f"different {size}"] = f"such as `{different[0]}`"

    def close(self) -> None:
        """End the proxies."""
        self._observer.close()
