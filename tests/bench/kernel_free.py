# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Measure a change in the agent without a kernel: from an EndpointSlice's text to the bytes of netlink messages.

Arguments: services, endpoints of each, changes in a second, seconds. Standard output: JSON with the list of ``latency``
(seconds from when a change was due to when its messages were there), ``cpu`` (seconds of CPU in a second), ``memory``
(MiB, the largest) and ``bytes``.

The engine is the agent's. The tables only pack the messages. Changes come at a steady rate, also while earlier ones
wait. Draining real servers have no connections, and are removed at the agent's next check.
"""

from __future__ import annotations

import gc
import json
import random
import resource
import sys
import tempfile
import time
from collections.abc import Generator
from typing import Any

from objects import NODE, Object, cluster

from kubenode.daemon.sync.reconciler import A_TURN, Reconciler
from kubenode.engine.desired.cluster import Cluster
from kubenode.engine.desired.node_facts import NodeFacts
from kubenode.engine.desired.settings import Config
from kubenode.engine.kernel import Result
from kubenode.engine.kernel.ipvs.codec import pack_real, pack_server
from kubenode.engine.model.kinds import KINDS
from kubenode.engine.plan import Step


class Packing:
    """Node whose tables pack IPVS messages and accept every step."""

    def __init__(self) -> None:
        self.bytes = 0
        self.tables = {kind.table: self._take for kind in KINDS.values()}

    def _take(self, steps: list[Step], _keep_going: bool) -> Result:
        for step in steps:
            if step.kind == "virtual_server":
                self.bytes += len(pack_server(step.key, step.after))
            elif step.kind == "real_server":
                self.bytes += len(pack_server(step.key.server) + pack_real(step.key, step.after))
        return Result(list(steps), [])

    def reading(
        self, _want: Any, _owned: Any, _believed: Any = None
    ) -> Generator[None, None, dict[str, dict[Any, Any]]]:
        yield
        return {kind: {} for kind in KINDS}

    def connections(self, _of: Any) -> dict[Any, tuple[int, int]]:
        return {}


def change(piece: Object, dice: random.Random) -> str:
    """Remove an endpoint from a slice, or add the removed one again; return the slice's text."""
    taken = piece.setdefault("taken", [])
    if taken:
        piece["endpoints"].append(taken.pop())
    else:
        taken.append(piece["endpoints"].pop(dice.randrange(len(piece["endpoints"]))))
    return json.dumps({field: value for field, value in piece.items() if field != "taken"})


def main(services: int, endpoints: int, rate: float, seconds: float) -> None:
    """Measure."""
    dice = random.Random(1)
    objects = cluster(services, endpoints)
    slices = [item for item in objects if item["kind"] == "EndpointSlice"]
    facts = NodeFacts(NODE, (("eth0", "10.77.0.11"),), ("10.77.0.11",), "", 0)
    wanted, node = Cluster(Config(), facts), Packing()
    gc.disable()  # as the agent does
    for item in objects:
        wanted.put(json.loads(json.dumps(item)))
    latency: list[float] = []
    with tempfile.TemporaryDirectory() as directory:
        reconciler = Reconciler(node, directory)
        reconciler.accept(wanted.take(), whole=True)
        reconciler.full()
        gc.freeze()
        gc.enable()
        node.bytes = 0
        total, sent, drained = int(rate * seconds), 0, 0.0
        cpu, start = time.process_time(), time.perf_counter()
        while sent < total:
            wait = start + sent / rate - time.perf_counter()
            if wait > 0:
                time.sleep(wait)
            due = min(total, int((time.perf_counter() - start) * rate) + 1)
            for _number in range(sent, due):
                wanted.put(json.loads(change(dice.choice(slices), dice)))
            reconciler.accept(wanted.take())
            reconciler.changed()
            done = time.perf_counter() - start
            latency.extend(done - number / rate for number in range(sent, due))
            sent = due
            if done - drained > (1.0 if len(reconciler.draining) <= A_TURN else 0.1):
                reconciler.drain()
                drained = done
        spent = (time.process_time() - cpu) / (time.perf_counter() - start)
        reconciler.close()
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    json.dump({"latency": latency, "cpu": spent, "memory": peak, "bytes": node.bytes}, sys.stdout)


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3]), float(sys.argv[4]))
