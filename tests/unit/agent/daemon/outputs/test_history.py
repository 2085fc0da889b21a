# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Recorder: the history has each desired state, and each pass with its reason, drift and refusals."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support.agent.driver import web
from support.agent.recorded import RecordedAgent
from support.clusters.random_cluster import FACTS, RandomCluster
from support.waiting import PATIENCE, eventually

from kubenode.daemon.agent import Agent
from kubenode.daemon.outputs import history, history_writer
from kubenode.engine.errors import EngineError
from kubenode.engine.model.ipvs import VirtualServerKey
from kubenode.history.reading import Reader
from kubenode.history.records import Alive, Ended, Lost, Passed, Problems, Record, Started, Trouble, Wanted, resolved
from kubenode.history.replay import UnknownMomentError, state_at
from kubenode.manifests.documents import ObjectKey

WEB = VirtualServerKey("tcp", "10.96.0.1", 80, 4)


@pytest.fixture
def recorded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[RecordedAgent]:
    process = RecordedAgent(tmp_path, monkeypatch)
    yield process
    process.close()


def records(recorded: RecordedAgent) -> list[Record]:
    """End the history; return its records."""
    assert recorded.recorder is not None
    recorded.recorder.close()
    recorded.recorder = None
    with Reader(str(recorded.directory)) as reader:
        read = [line.record() for line in reader.lines()]
        assert reader.problems == []
    assert [record.number for record in read] == list(range(1, len(read) + 1))
    return read


def contents(recorded: RecordedAgent, type_: type[Any]) -> list[Any]:
    return [record.content for record in records(recorded) if isinstance(record.content, type_)]


def state_of(recorded: RecordedAgent, moment: int) -> Any:
    return replayed(recorded, moment)[0]


def replayed(recorded: RecordedAgent, moment: int) -> Any:
    """Return the state of a moment, without empty kinds, and the Service ports of its virtual servers."""
    with Reader(str(recorded.directory)) as reader:
        of_moment = state_at(reader, moment)
    return {kind: items for kind, items in of_moment.state.items() if items}, of_moment.names


def wanted_now(recorded: RecordedAgent) -> Any:
    """Return what :func:`replayed` returns for this moment."""
    cluster = recorded.passes.desired.cluster
    assert cluster is not None
    want = recorded.want()
    ports = {server: cluster.peek_port(server) for server in want.get("virtual_server", {})}
    return want, {server: "{}/{}:{}".format(*port) for server, port in ports.items() if port is not None}


@pytest.mark.parametrize("backend", ["iptables", "nftables"])
@pytest.mark.parametrize("seed", range(2))
def test_each_desired_state_is_in_the_history(recorded: RecordedAgent, backend: str, seed: int) -> None:
    recorded.passes.desired.rules_backend = backend
    source = RandomCluster(seed)
    cluster = recorded.passes.desired.cluster
    assert cluster is not None
    cluster.set_facts(FACTS[0])
    for item in web("first", 1, 2):
        recorded.passes.desired._put(item)
    recorded.passes.full("start")
    recorder = recorded.record()
    moments = {recorded.now(): wanted_now(recorded)}
    for number, (what, event) in enumerate(source.events(40)):
        if what == "put":
            recorded.put(event)
        elif what == "remove":
            recorder.use_objects((), [ObjectKey(*event)])
            cluster.remove(*event)
            recorded.passes._pass(False, "event")
        elif what == "facts":
            cluster.set_facts(event)
            recorded.passes._pass(True, "event")
        if number % 20 == 19:
            recorder._writer.wants_snapshot = True
        moments[recorded.now()] = wanted_now(recorded)
    assert len(moments) == 41
    assert recorded.passes.record.trouble == ""
    wanted = contents(recorded, Wanted)
    assert len(wanted) > 10
    for moment, wanted_then in moments.items():
        assert replayed(recorded, moment) == wanted_then


def test_state_before_the_first_checkpoint_is_unknown(recorded: RecordedAgent) -> None:
    recorded.passes.full("start")
    recorded.record()
    assert contents(recorded, Started)
    with pytest.raises(UnknownMomentError, match="begins later"):
        state_of(recorded, 1)


def test_agent_that_waits_records_its_first_state_later(recorded: RecordedAgent, tmp_path: Path) -> None:
    desired = recorded.passes.desired
    assert desired.source is not None
    (tmp_path / "manifests").rmdir()
    desired.source.scan()
    recorded.passes.full("start")
    assert recorded.passes.waiting
    recorded.record()
    recorded.now()
    (tmp_path / "manifests").mkdir()
    recorded.passes.full("retry")
    moment = recorded.now()
    assert [trouble.reason != "" for trouble in contents(recorded, Trouble)] == [True, False]
    assert state_of(recorded, moment) == recorded.want()


def test_pass_has_its_reason_objects_and_steps(recorded: RecordedAgent) -> None:
    recorded.passes.full("start")
    recorded.record()
    recorded.put(*web("web", 1, 1))
    all_ = records(recorded)
    change, done = [record.content for record in all_ if isinstance(record.content, (Wanted, Passed))][-2:]
    assert isinstance(change, Wanted)
    assert isinstance(done, Passed)
    assert change.objects == ("Service ns1/web", "EndpointSlice ns1/web-4")
    assert [(name.server, name.port) for name in change.names] == [(WEB, "ns1/web:p")]
    assert done.reason == "event"
    lines = resolved(done.steps, change)
    assert done.done == len(lines)
    assert f"+ virtual server {WEB}: scheduler rr" in [line.text for line in lines]
    assert all(line.key is not None for line in lines)


def test_drift_refusals_and_conflicts_are_recorded(recorded: RecordedAgent) -> None:
    recorded.passes.full("start")
    recorded.record()
    recorded.put(*web("web", 1, 1))
    del recorded.node.state["virtual_server"][WEB]
    recorded.passes.full("period")
    recorded.node.refuse.add(VirtualServerKey("tcp", "10.96.0.2", 80, 4))
    recorded.put(*web("refused", 2, 1))
    broken = web("broken", 3, 0)[0]
    broken["metadata"]["annotations"] = {"kubenode.ipvs/scheduler": "no-such"}
    recorded.put(broken)
    recorded.put(web("broken", 3, 0)[0])
    all_ = records(recorded)
    passed = [record.content for record in all_ if isinstance(record.content, Passed)]
    assert [line.text for each in passed for line in each.drift][:1] == [f"+ virtual server {WEB}: scheduler rr"]
    assert "refused" in {line.reason for each in passed for line in each.failed}
    problems = [record.content for record in all_ if isinstance(record.content, Problems)]
    assert [problem.name for each in problems for problem in each.begun] == ["ns1/broken"]
    assert [problem.name for each in problems for problem in each.ended] == ["ns1/broken"]


def test_passes_without_anything_to_do_take_little_room(recorded: RecordedAgent) -> None:
    recorded.passes.full("start")
    recorded.record()
    for _time in range(3):
        recorded.passes.full("period")
        recorded.passes._pass(False, "event")
    read = records(recorded)
    assert [type(record.content) for record in read[2:]] == [Alive, Alive, Alive, Ended]


def test_trouble_of_a_pass_is_recorded_once(recorded: RecordedAgent) -> None:
    recorded.passes.full("start")
    recorded.record()
    recorded.node.broken = True
    for _time in range(3):
        recorded.passes.full("period")
    recorded.node.broken = False
    recorded.passes.full("period")
    assert [trouble.reason for trouble in contents(recorded, Trouble)] == ["broken", ""]


def test_large_change_has_several_records(recorded: RecordedAgent, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kubenode.daemon.outputs.history._MOST_ITEMS", 5)
    recorded.passes.full("start")
    recorded.record()
    recorded.put(*web("web", 1, 20))
    moment = recorded.now()
    changes = contents(recorded, Wanted)
    assert [len(change.items) for change in changes[:-1]] == [5] * (len(changes) - 1)
    assert len(changes) > 4
    assert state_of(recorded, moment) == recorded.want()


def test_renamed_service_has_its_new_name(recorded: RecordedAgent) -> None:
    """The virtual servers are the same, so the desired state does not change."""
    recorded.passes.full("start")
    recorded.record()
    recorded.put(*web("old", 1, 1))
    cluster = recorded.passes.desired.cluster
    assert cluster is not None
    cluster.remove("Service", "ns1", "old")
    cluster.remove("EndpointSlice", "ns1", "old-4")
    recorded.put(*web("new", 1, 1))
    names = [name.port for change in contents(recorded, Wanted) for name in change.names]
    assert names == ["ns1/old:p", "ns1/new:p"]


def test_disk_that_fails_costs_only_the_history(recorded: RecordedAgent, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(history_writer, "_RETRY", 0.0)
    recorded.passes.full("start")
    recorder = recorded.record()
    writer = recorder._writer
    eventually(lambda: list(recorded.directory.glob("*.state")))
    real = os.write
    monkeypatch.setattr(os, "write", lambda fd, data: real(fd, data[:7]))
    recorded.put(*web("lost", 1, 1))
    eventually(lambda: writer.trouble)
    monkeypatch.setattr(os, "write", real)
    recorded.put(*web("web", 2, 1))
    eventually(lambda: not writer.trouble)
    recorded.put(*web("later", 3, 1))
    moment = recorded.now()
    recorder.close()
    recorded.recorder = None
    assert any("history failed" in line and "the disk is full" in line for line in recorded.lines)
    with Reader(str(recorded.directory)) as reader:
        read = [line.record() for line in reader.lines()]
    assert any(isinstance(record.content, Lost) for record in read)
    assert read[-1].number > len(read)
    assert state_of(recorded, moment) == recorded.want()
    lost = next(record for record in read if isinstance(record.content, Lost))
    with pytest.raises(UnknownMomentError, match="lacks"):
        state_of(recorded, lost.moment)


def test_disk_that_hangs_delays_no_pass_and_takes_no_memory(
    recorded: RecordedAgent, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(history_writer, "_MOST_WAITING", 20)
    monkeypatch.setattr(history_writer, "_RETRY", 0.0)
    recorded.passes.full("start")
    recorder = recorded.record()
    writer = recorder._writer
    eventually(lambda: list(recorded.directory.glob("*.state")))
    hangs, entered, real = threading.Event(), threading.Event(), os.write

    def write(descriptor: int, data: bytes) -> int:
        entered.set()
        hangs.wait()
        return real(descriptor, data)

    monkeypatch.setattr(os, "write", write)
    recorded.put(*web("web", 1, 1))
    assert entered.wait(PATIENCE)
    for number in range(2, 60):
        recorded.put(*web("web", 1, number))
        assert recorded.passes.reconciler.synced
    assert len(writer._entries) <= 20
    monkeypatch.setattr(os, "write", real)
    hangs.set()
    eventually(lambda: "too slow" in writer.trouble)
    recorded.put(*web("web", 1, 60))
    eventually(lambda: not writer.trouble)
    recorded.put(*web("web", 1, 61))
    recorded.put(*web("web", 1, 62))
    moment = recorded.now()
    recorder.close()
    recorded.recorder = None
    assert state_of(recorded, moment) == recorded.want()


def test_error_in_the_thread_costs_only_the_history(recorded: RecordedAgent, monkeypatch: pytest.MonkeyPatch) -> None:
    recorded.passes.full("start")
    recorder = recorded.record()
    monkeypatch.setattr("kubenode.history.ring.Ring.append", lambda *_arguments: {}["no such"])
    recorded.put(*web("web", 1, 1))
    eventually(lambda: "KeyError" in recorder._writer.trouble)
    recorded.put(*web("web", 1, 2))
    assert recorded.passes.reconciler.synced


@pytest.mark.parametrize(("few", "expected"), [(1_000, ["pass", "wake"]), (1, ["wake", "pass", "wake"])])
def test_thread_is_woken_after_the_pass_of_a_small_change(
    recorded: RecordedAgent, monkeypatch: pytest.MonkeyPatch, few: int, expected: list[str]
) -> None:
    """Otherwise the thread and the pass compete for the interpreter; the pass of a large change takes long."""
    monkeypatch.setattr(history, "_FEW_ITEMS", few)
    recorded.passes.full("start")
    writer = recorded.record()._writer
    done: list[str] = []
    changed, wake = recorded.passes.reconciler.changed, writer.wake
    monkeypatch.setattr(recorded.passes.reconciler, "changed", lambda: (done.append("pass"), changed())[1])
    monkeypatch.setattr(writer, "wake", lambda: (done.append("wake"), wake()))
    recorded.put(*web("web", 1, 1))
    assert done == expected
    assert contents(recorded, Passed)[-1].reason == "event"


def test_history_ends_when_the_engine_raises(recorded: RecordedAgent) -> None:
    """A change that was accepted is recorded, though its pass failed."""
    recorded.passes.full("start")
    recorded.record()

    def refuse() -> None:
        raise EngineError("no pass")

    recorded.passes.reconciler.changed = refuse
    recorded.put(*web("web", 1, 1))
    moment = recorded.now()
    assert contents(recorded, Trouble)[-1].reason == "no pass"
    assert state_of(recorded, moment) == recorded.want()


def test_reload_ends_and_begins_the_history(agent: Agent, tmp_path: Path) -> None:
    parts, desired = agent.lifecycle.parts, agent.passes.desired
    assert parts is not None
    number = len(agent.passes._subscribers)
    parts.configured()
    eventually(lambda: list((tmp_path / "history").glob("*.log")))
    assert len(agent.passes._subscribers) == number + 1
    for size, subscribers in ((0, number), (64, number + 1), (1, number + 1)):
        value = {"enabled": size > 0, "maxSize": f"{size or 16}Mi"}
        document = {"apiVersion": "kubenode.ipvs/v1alpha1", "kind": "AgentConfiguration", "history": value}
        (tmp_path / "config.yaml").write_text(json.dumps(document))
        desired.configure()
        parts.configured()
        assert desired.problems == []
        assert len(agent.passes._subscribers) == subscribers
    parts.close()
    with Reader(str(tmp_path / "history")) as reader:
        types = [line.type for line in reader.lines()]
    assert types.count("Started") == types.count("Ended") == 3
