# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Flight recorder: each change of the desired state, each pass with its steps, and each problem, for the history."""

from __future__ import annotations

import os
import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

from ..._version import VERSION
from ...engine.kubernetes.fields import SERVICE_NAME_LABEL
from ...engine.model import ReadState, State
from ...engine.model.ipvs import VirtualServerKey
from ...engine.model.step import Step
from ...history.files import Names
from ...history.items import KINDS, Item
from ...history.records import (
    Alive,
    AnyStep,
    Content,
    Ended,
    Name,
    Passed,
    Problem,
    Problems,
    Started,
    StepLine,
    Trouble,
    Wanted,
    clean,
    spelled,
)
from ..interfaces import AgentView
from ..pass_result import PassResult, PassSubscriber
from .history_writer import HistoryWriter, Snapshot

_MOST_ITEMS = 10_000  # of one record; a larger change has several
_MOST_STEPS = 5_000  # of a pass
_FEW_ITEMS = 1_000  # of a change whose record waits for the end of its pass
_MOST_OBJECTS = 20  # named as the cause of a change
_MOST_SERVICES = 200
_MOST_PROBLEMS = 1_000  # of one record
_OF_SERVERS = {"virtual_server", "real_server"}  # kinds that tell the Service of a change
_LAST_WORDS = 5.0  # seconds for the last records at the end


class _Cause(NamedTuple):
    """Objects that changed. ``services`` are theirs, if no virtual or real server among the items tells."""

    objects: Sequence[str]
    more_objects: int
    services: Collection[tuple[str, str]]


class HistoryRecorder(PassSubscriber):
    """Records passes of the agent in a ring below its state directory, of at most ``most`` bytes."""

    def __init__(self, agent: AgentView, directory: str, most: int) -> None:
        self._agent = agent
        self._writer = HistoryWriter(directory, most)
        self._names: Names = {}  # of the virtual servers in the desired state
        self._wanted: Sequence[Item] = ()  # of the last record of a change
        self._known = False  # whether the desired state is known, and recorded
        self._objects: list[str] = []  # that have changed since the last change of the desired state
        self._more_objects = 0
        self._renaming = False  # whether one of them may give a virtual server to another Service port
        self._claimed: set[VirtualServerKey] = set()  # by changed Services before: another may take over
        self._services: dict[tuple[str, str], None] = {}  # by namespace and name
        self._reported: Mapping[str, str] = {}
        self._conflicts: tuple[str, ...] = ()
        self._waiting = ""
        self._trouble = ""

    def begin(self, reason: str) -> None:
        """Begin with what the agent has done already; ``reason`` is that of its last full pass."""
        agent = self._agent
        node = agent.desired.cluster.facts.name if agent.desired.cluster is not None else ""
        pid = os.getpid()
        self._writer.start()
        self._writer.put(_milliseconds(agent.started), Started(clean(node), VERSION, pid))
        last = agent.record.last
        if agent.reconciler.want:
            moment = _now() - int((last.seconds if last is not None else 0.0) * 1000)
            self._snapshot(moment, agent.reconciler.want)
        if last is not None:
            self.passed(last, reason)
        else:
            self.delayed()

    def close(self) -> None:
        """Record the end; wait a little for the disk."""
        pid = os.getpid()
        self._put(Ended(pid))
        self._writer.stop(_LAST_WORDS)

    def use_objects(self, put: Iterable[Mapping[str, Any]], removed: Iterable[Any]) -> None:
        """Note objects that have changed: the cause of the next change of the desired state."""
        for item in put:
            kind, metadata = item["kind"], item["metadata"]
            namespace, name = str(metadata.get("namespace") or ""), str(metadata["name"])
            self._use_object(kind, f"{kind} {namespace}/{name}" if namespace else f"{kind} {name}")
            if kind == "EndpointSlice":
                name = str((metadata.get("labels") or {}).get(SERVICE_NAME_LABEL) or "")
            if kind in ("Service", "EndpointSlice") and name:
                self._services[namespace, name] = None
            if kind == "Service":
                self._use_claims(namespace, name)
        for key in removed:
            self._use_object(key.kind, f"{key} removed")
            if key.kind == "Service":
                self._services[key.namespace, key.name] = None
                self._use_claims(key.namespace, key.name)

    def _use_object(self, kind: str, name: str) -> None:
        self._renaming = self._renaming or kind != "EndpointSlice"
        if len(self._objects) < _MOST_OBJECTS:
            self._objects.append(name)
        else:
            self._more_objects += 1

    def _use_claims(self, namespace: str, name: str) -> None:
        cluster = self._agent.desired.cluster
        if cluster is not None:
            self._claimed.update(cluster.servers_of((namespace, name)))  # as worked out before the change

    def changing(self, delta: ReadState, whole: bool) -> None:
        """Record a change of the desired state, which the reconciler has not accepted yet."""
        want = self._agent.reconciler.want
        moment = _now()
        if not self._known:
            after = {kind: dict(items) for kind, items in want.items()} if not whole else {}
            for kind, changes in delta.items():
                after.setdefault(kind, {}).update(changes)
            state = {
                kind: {key: value for key, value in items.items() if value is not None} for kind, items in after.items()
            }
            self._forget_objects()
            self._snapshot(moment, state)
            return
        if self._writer.wants_snapshot:
            self._snapshot(moment, want)
        items = _changed(want, delta, whole)
        kinds = {item.kind for item in items}
        renaming = whole or self._renaming or "virtual_server" in kinds
        names = self._new_names(_servers_of(items)) if renaming else ()
        cause = _Cause(self._objects, self._more_objects, self._services if kinds.isdisjoint(_OF_SERVERS) else ())
        self._wanted = ()
        for at in range(0, max(1, len(items)) if items or names else 0, _MOST_ITEMS):
            self._wanted = items[at : at + _MOST_ITEMS]
            self._writer.put(moment, partial(_spelled_change, self._wanted, names if at == 0 else (), cause))
        if len(items) > _FEW_ITEMS:  # else the writer would compete with the pass for the interpreter
            self._writer.wake()
        self._forget_objects()

    def _forget_objects(self) -> None:
        self._objects, self._more_objects, self._renaming = [], 0, False
        self._services, self._claimed = {}, set()

    def _new_names(self, servers: Iterable[VirtualServerKey]) -> tuple[Name, ...]:
        """Return the Service ports that changed, of these virtual servers and of the changed Services."""
        cluster = self._agent.desired.cluster
        if cluster is None:
            return ()
        servers = self._claimed.union(servers, *map(cluster.servers_of, self._services))
        changed = []
        for server in servers:
            port = self._port_of(server)
            if port != self._names.get(server, ""):
                changed.append(Name(server, port))
                if port:
                    self._names[server] = port
                else:
                    del self._names[server]
        return tuple(changed)

    def _port_of(self, server: VirtualServerKey) -> str:
        cluster = self._agent.desired.cluster
        port = cluster.peek_port(server) if cluster is not None else None
        return "" if port is None else clean(f"{port[0]}/{port[1]}:{port[2]}")

    def _snapshot(self, moment: int, state: ReadState) -> None:
        if not self._known:
            ports = {server: self._port_of(server) for server in state.get("virtual_server", {})}
            self._names = {server: port for server, port in ports.items() if port}
            self._known = True
        self._writer.wants_snapshot = False
        copy: State = {kind: dict(items) for kind, items in state.items()}
        self._writer.put(moment, Snapshot(moment, copy, dict(self._names)))

    def passed(self, result: PassResult, reason: str) -> None:
        """Record a pass, unless it had nothing to do."""
        self._report()
        described = tuple(clean(conflict.describe()) for conflict in result.conflicts)
        conflicts = None if described == self._conflicts or not (result.full or described) else described
        if conflicts is not None:
            self._conflicts = conflicts
        if result.done or result.failed or conflicts is not None or (result.full and reason != "period"):
            wanted = self._wanted
            self._writer.put(_now(), lambda: _passed(result, reason, conflicts, wanted))
        elif result.full:
            self._put(Alive(round(result.seconds, 3)))
        self._writer.wake()

    def delayed(self) -> None:
        """Record why a pass was not possible."""
        self._report()
        self._writer.wake()

    def _report(self) -> None:
        """Record new and ended problems; log those of the history itself."""
        agent = self._agent
        waiting = agent.waiting
        if waiting != self._waiting:
            self._waiting = waiting
            self._put(Trouble(clean(waiting)))
        reported = agent.desired.reported
        if reported is not self._reported:
            begun = [Problem(clean(name), clean(text)) for text, name in reported.items() if text not in self._reported]
            ended = [Problem(clean(name), clean(text)) for text, name in self._reported.items() if text not in reported]
            self._reported = reported
            if begun or ended:
                self._put(Problems(tuple(begun[:_MOST_PROBLEMS]), tuple(ended[:_MOST_PROBLEMS])))
        if self._known and self._writer.wants_snapshot:
            self._snapshot(_now(), agent.reconciler.want)
        while self._writer.notices:
            agent.log.warning("history", reason=self._writer.notices.popleft())
        trouble = self._writer.trouble
        if trouble != self._trouble:
            self._trouble = trouble
            if trouble:
                agent.log.error("history failed", reason=trouble)
            else:
                agent.log.info("history is written again")

    def _put(self, content: Content) -> None:
        self._writer.put(_now(), content)


def _changed(want: ReadState, delta: ReadState, whole: bool) -> list[Item]:
    """Return the items of a change that differ from the desired state before."""
    changed = []
    for kind, items in delta.items():
        before = want.get(kind, {})
        for key, value in items.items():
            if before.get(key) != value:
                changed.append(Item(kind, key, value))
    for kind, known in want.items() if whole else ():
        wanted = delta.get(kind, {})
        changed += [Item(kind, key, None) for key in known if key not in wanted]
    return changed


def _servers_of(items: Iterable[Item]) -> set[VirtualServerKey]:
    """Return the virtual servers of items that are one, or belong to one."""
    servers = set()
    for kind, key, _value in items:
        if kind == "real_server":
            servers.add(key.server)
        elif kind == "virtual_server":
            servers.add(key)
    return servers


def _spelled_change(items: Sequence[Item], names: tuple[Name, ...], cause: _Cause) -> Wanted:
    """Spell a change of the desired state; in the thread, as :func:`_passed`."""
    objects = tuple(map(clean, cause.objects))
    if cause.more_objects:
        objects += (f"and {cause.more_objects} more",)
    services = tuple(clean("/".join(name)) for name in list(cause.services)[:_MOST_SERVICES])
    return Wanted(tuple(items), names, objects, services)


def _passed(result: PassResult, reason: str, conflicts: tuple[str, ...] | None, wanted: Sequence[Item]) -> Passed:
    """Spell a pass after the last change of the desired state; in the thread, because a pass may have many steps."""
    positions = {(item.kind, item.key): at for at, item in enumerate(wanted)}

    def line(step: Step) -> AnyStep:
        at = positions.get((step.kind, step.key))
        return _line(step) if at is None else spelled(step, at, wanted[at])

    failed = [(failure.step, failure.message) for failure in result.failed[:_MOST_STEPS]]
    return Passed(
        reason,
        result.full,
        round(result.seconds, 4),
        len(result.done),
        tuple(line(step) for step in result.done[:_MOST_STEPS]),
        tuple(_line(step, message) for step, message in failed),
        tuple(_line(step) for step in result.drift[:_MOST_STEPS]),
        conflicts,
    )


def _line(step: Step, reason: str = "") -> StepLine:
    return StepLine(step.kind, step.key if step.kind in KINDS else None, clean(step.describe()), clean(reason))


def _milliseconds(seconds: float) -> int:
    return int(seconds * 1000)


def _now() -> int:
    return time.time_ns() // 1_000_000
