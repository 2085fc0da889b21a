# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Measure a scrape with the metrics of 10,000 Services: processor time of reading and rendering, in milliseconds.

service_metrics.py record DIR    in a kernel with IPVS: fill a table, measure, and keep the kernel's answers in DIR
service_metrics.py replay DIR    anywhere: measure with these answers, without the kernel's part

Both need PYTHONPATH=agent/src.
"""

from __future__ import annotations

import pickle
import statistics as numbers
import sys
import time
from pathlib import Path
from typing import Any

from kubenode.daemon.outputs.metrics import Metrics
from kubenode.daemon.outputs.service_metrics import ServiceMetrics
from kubenode.engine.kernel import ipvs
from kubenode.engine.kernel.ipvs import proc, usage
from kubenode.engine.model.ipvs import RealServer, RealServerKey, VirtualServer, VirtualServerKey
from kubenode.engine.plan import Step

SERVICES, ENDPOINTS, SCRAPES = 10_000, 3, 7


def fill() -> None:
    """Make the virtual servers and real servers."""
    steps = []
    for number in range(SERVICES):
        key = VirtualServerKey("tcp", f"10.96.{number >> 8}.{number & 255}", 80, 4)
        steps.append(Step("virtual_server", key, None, VirtualServer()))
        reals = [RealServerKey(key, f"10.244.{number % 250}.{last}", 8080) for last in range(1, ENDPOINTS + 1)]
        steps += [Step("real_server", real, None, RealServer()) for real in reals]
    assert not ipvs.apply(steps).failed


def measure(most: int | None, busy: bool = False) -> float:
    """Return the median processor time of a scrape that is not the first; ``busy``: all have had traffic since then."""
    metrics = Metrics("bench")
    reader = usage.UsageReader()
    names: dict[VirtualServerKey, tuple[str, str, str]] = {}

    def port_of(key: VirtualServerKey) -> tuple[str, str, str]:
        return names.get(key) or names.setdefault(key, ("namespace", f"service-{len(names)}", "http"))

    services = ServiceMetrics(metrics, most, reader, port_of)
    metrics.collect = services.collect
    metrics.text()
    spent = []
    for _scrape in range(SCRAPES):
        for server in services._servers.values() if busy else ():
            server.is_settled = False
        start = time.process_time()
        text = metrics.text().encode()
        spent.append(time.process_time() - start)
    assert text.count(b"kubenode_service_connections_total{") == (most or SERVICES)
    return numbers.median(spent) * 1000


def main() -> None:
    """Record or replay."""
    kept = Path(sys.argv[2]) / "answers.pickle"
    if sys.argv[1] == "record":
        fill()
        answers: Any = ([], list(proc.pieces()))
        with ipvs.connect() as socket:
            answers[0].extend(usage._dump(socket))
        kept.write_bytes(pickle.dumps(answers))
    else:
        payloads, pieces = pickle.loads(kept.read_bytes())

        class Recorded(usage.UsageReader):
            def counters(self) -> Any:
                return self._decode(payloads)

            def active(self, of: Any = None) -> Any:
                return super().active() if len(of) > SERVICES // 2 else {}  # few are requests to the kernel

        usage.UsageReader = Recorded
        usage.connect = open_nothing
        proc.pieces = lambda: iter(pieces)
    print({"all": round(measure(None)), "all, busy": round(measure(None, True)), "top 20": round(measure(20))})


def open_nothing() -> Any:
    """Stand for the conversation with a kernel."""
    from contextlib import nullcontext

    return nullcontext()


if __name__ == "__main__":
    main()
