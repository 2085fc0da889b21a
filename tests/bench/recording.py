# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Run an agent at 50 changes a second with or without a history, or write a checkpoint; for the section ``history``.

    python tests/bench/recording.py with|without SECONDS
    python tests/bench/recording.py checkpoint SERVICES

The agent has its scheduler, reconciler and ledger, and no kernel: an endpoint of one of 1,000 Services comes or goes
with each change. Standard output: one line of JSON.
"""

from __future__ import annotations

import json
import random
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
sys.path[:0] = [str(ROOT / "agent/src"), str(ROOT / "tests")]

from support.agent.driver import FakeNode  # noqa: E402

from bench.objects import cluster  # noqa: E402
from kubenode.daemon.agent import Agent  # noqa: E402
from kubenode.daemon.inputs.desired_state import Options  # noqa: E402
from kubenode.daemon.memory import keep_objects  # noqa: E402
from kubenode.daemon.outputs.history import HistoryRecorder  # noqa: E402
from kubenode.history.files import LOG_HEAD, checkpoint, seal  # noqa: E402
from kubenode.log import Log  # noqa: E402

SERVICES, ENDPOINTS, RATE = 1_000, 10, 50


def agent_with(directory: Path, services: int) -> Agent:
    """Return an agent that has converged, whose kernel is on paper."""
    (directory / "manifests").mkdir()
    items = cluster(services, ENDPOINTS)
    (directory / "manifests/all.json").write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": items}))
    configuration = {"apiVersion": "kubenode.ipvs/v1alpha1", "kind": "AgentConfiguration"}
    (directory / "config.yaml").write_text(json.dumps(configuration))
    config, manifests, rest = str(directory / "config.yaml"), str(directory / "manifests"), str(directory)
    agent = Agent(Options(config, True, manifests, rest, rest, "node1", False), Log(write=lambda _line: None))
    node: Any = FakeNode()
    agent.passes.reconciler._node = node
    agent.passes.desired.configure()
    agent.passes.full("start")
    assert agent.passes.reconciler.synced, agent.passes.waiting
    return agent


def changes(agent: Agent) -> Any:
    """Yield EndpointSlices with one endpoint more or less than before."""
    chance = random.Random(20261124)
    assert agent.passes.desired.source is not None
    slices = [item for item in agent.passes.desired.source.objects() if item["kind"] == "EndpointSlice"]
    while True:
        item = chance.choice(slices)
        all_of = item.setdefault("all", list(item["endpoints"]))
        left = list(item["endpoints"])
        missing = [each for each in all_of if each not in left]
        if missing:
            left.append(missing[0])
        else:
            left.remove(chance.choice(left))
        item["endpoints"] = left
        yield {**{key: value for key, value in item.items() if key != "all"}, "endpoints": left}


def timed(recorder: HistoryRecorder) -> Callable[[], float]:
    """Return a function that returns the processor time of a history so far: its thread's, and that in the loop."""
    spent = [0.0]

    def wrapped(method: Callable[..., None]) -> Callable[..., None]:
        def call(*arguments: Any) -> None:
            began = time.thread_time()
            method(*arguments)
            spent[0] += time.thread_time() - began

        return call

    for name in ("use_objects", "changing", "passed", "delayed"):
        setattr(recorder, name, wrapped(getattr(recorder, name)))
    assert recorder._writer.ident is not None
    clock = time.pthread_getcpuclockid(recorder._writer.ident)
    return lambda: spent[0] + time.clock_gettime(clock)


def run(with_history: bool, seconds: float) -> dict[str, float]:
    """Return processor time and sizes of one run."""
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        agent = agent_with(directory, SERVICES)
        recorder = None
        if with_history:
            recorder = HistoryRecorder(agent.passes, str(directory / "history"), 16 << 20)
            recorder._writer._ring._log_most = 1 << 30  # it is sealed below, to measure that by itself
            agent.passes.subscribe(recorder)
            recorder.begin("start")
            time.sleep(2)  # until the first checkpoint is written
            log = directory / "history/0000000000000001.log"
            before = log.stat().st_size
            history_time = timed(recorder)
            own = history_time()
        keep_objects()  # as the agent does after its start
        stream, count = changes(agent), int(seconds * RATE)
        cpu, began = time.process_time(), time.monotonic()
        for number in range(count):
            time.sleep(max(0.0, began + number / RATE - time.monotonic()))
            item = next(stream)
            agent.passes.desired._put(item)
            if recorder is not None:
                recorder.use_objects([item], [])
            agent.passes._changed()
        spent = time.process_time() - cpu
        result = {"history": with_history, "changes": count, "percent": round(100 * spent * RATE / count, 2)}
        if recorder is not None:
            own = history_time() - own
            recorder.close()
            data = LOG_HEAD + log.read_bytes()[before:]
            cpu = time.process_time()
            sealed = len(seal(data))
            sealing = time.process_time() - cpu
            result["percent"] += round(100 * sealing * RATE / count, 2)
            result["own"] = round(100 * (own + sealing) * RATE / count, 2)
            result |= {"log": len(data) / count, "sealed": sealed / count}
        agent.passes.reconciler.close()
        return result


def large(services: int) -> dict[str, float]:
    """Return size and processor time of a checkpoint."""
    with tempfile.TemporaryDirectory() as name:
        want = agent_with(Path(name), services).passes.reconciler.want
        cpu = time.process_time()
        head, data = checkpoint(1, 0, want, {})
        return {"services": services, "items": head.items, "bytes": len(data), "seconds": time.process_time() - cpu}


def main() -> None:
    """Measure."""
    what, number = sys.argv[1:]
    print(json.dumps(large(int(number)) if what == "checkpoint" else run(what == "with", float(number))))


if __name__ == "__main__":
    main()
