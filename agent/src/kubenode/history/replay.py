# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Desired state of a moment, from a checkpoint and the records after it; attribution of steps to Services.

Pure functions over what :mod:`.reading` returns.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple, Protocol

from ..engine.model import State
from ..engine.model.ipvs import VirtualServerKey
from .files import Checkpoint, Names
from .records import Ended, Line, Lost, Record, Started, StepLine, Wanted


class Source(Protocol):
    """History to replay: :class:`.reading.Reader`."""

    def checkpoints(self) -> list[Checkpoint]:
        """Return the heads of all checkpoints, the oldest first."""

    def state(self, head: Checkpoint) -> tuple[State, Names] | None:
        """Return the state and the names of a checkpoint; None if it cannot be read."""

    def lines(self, number: int = 0, since: int = 0) -> Iterable[Line]:
        """Yield the records from a number on."""


class UnknownMomentError(Exception):
    """The state of a moment is not known; the text says why, and is a clause without a subject."""


class Moment(NamedTuple):
    """Desired state of a moment.

    ``since`` is when it was last changed, or first known. ``last`` is the last sign of the agent until the moment, and
    ``is_running`` tells whether the agent ran at the moment.
    """

    state: State
    names: Names
    since: int
    last: int
    is_running: bool


def apply(state: State, names: Names, change: Wanted) -> None:
    """Apply a change of the desired state to a state and the names of its virtual servers."""
    for item in change.items:
        if item.value is None:
            state.get(item.kind, {}).pop(item.key, None)
        else:
            state.setdefault(item.kind, {})[item.key] = item.value
    for name in change.names:
        if name.port:
            names[name.server] = name.port
        else:
            names.pop(name.server, None)


def state_at(source: Source, moment: int) -> Moment:
    """Return the desired state of a moment, in milliseconds since the epoch.

    Raises:
        UnknownMomentError: it lies before the first checkpoint or behind lost records.
        ValueError: a record is none that a release writes.
    """
    heads = source.checkpoints()
    if not heads:
        raise UnknownMomentError("has no state yet")
    before = [each for each in heads if each.moment <= moment]
    if not before:
        raise UnknownMomentError("begins later")
    whole = source.state(before[-1])
    if whole is None:  # an older one does not do: the agent may have started with another state
        raise UnknownMomentError("has a damaged checkpoint before that moment")
    return _replayed(source, before[-1], whole, moment)


def _replayed(source: Source, head: Checkpoint, whole: tuple[State, Names], moment: int) -> Moment:
    state, names = whole
    expected, since, last, is_running = head.number, head.moment, head.moment, True
    for line in source.lines(head.number):
        if line.number != expected:
            raise UnknownMomentError("lacks records before that moment")
        # a clock that was set back ends here, too: the first record behind the moment is the limit
        if line.moment > moment:
            is_running = is_running and line.type != Started.__name__
            break
        expected = line.number + 1
        if line.type in (Ended.__name__, Started.__name__):
            is_running = line.type == Started.__name__
        elif line.type == Wanted.__name__:
            change = line.record().content
            if isinstance(change, Wanted):
                apply(state, names, change)
            since = line.moment
        last = line.moment
    return Moment(state, names, since, last, is_running)


class Attribution:
    """Services of steps, by the virtual servers that each Service has or had."""

    def __init__(self, names: Names) -> None:
        self._ports: Names = {}
        self._by_address: dict[str, dict[VirtualServerKey, str]] = {}
        for server, port in names.items():
            self._add(server, port)

    def _add(self, server: VirtualServerKey, port: str) -> None:
        self._ports[server] = port
        self._by_address.setdefault(server.address, {})[server] = port

    def learn(self, change: Wanted) -> None:
        """Use the new names of a change; a removed virtual server keeps its last name, for the steps that remove it."""
        for name in change.names:
            if name.port:
                self._add(name.server, name.port)

    def service_of(self, step: StepLine) -> str:
        """Return the Service port of a step as ``namespace/name:port``, "" if it is unknown or several share it.

        Addresses and members have the Service of their virtual address; the port is left out if it has several.
        """
        key: Any = step.key
        if step.kind == "virtual_server":
            return self._ports.get(key, "")
        if step.kind == "real_server":
            return self._ports.get(key.server, "")
        if step.kind == "address":
            return _common(self._by_address.get(key.address, {}).values())
        if step.kind == "member":
            address, comma, rest = key.member.partition(",")
            if not comma:
                return _common(self._by_address.get(address, {}).values())
            protocol, _colon, port = rest.partition(",")[0].partition(":")
            return self._of(address, protocol, port)
        if step.kind == "nft_element" and len(key.fields) >= 3:
            return self._of(*key.fields[:3])
        return ""

    def _of(self, address: str, protocol: str, port: str) -> str:
        ports = self._by_address.get(address, {})
        return _common(
            name for server, name in ports.items() if server.protocol == protocol and str(server.port) == port
        )


def _common(ports: Iterable[str]) -> str:
    """Return the only Service port, or the only Service of several ports."""
    several = set(ports)
    if len(several) == 1:
        return several.pop()
    services = {port.partition(":")[0] for port in several}
    return services.pop() if len(services) == 1 else ""


def is_gap(before: Record | None, record: Record) -> bool:
    """Tell whether records are missing between two that follow one another."""
    return isinstance(record.content, Lost) or (before is not None and record.number != before.number + 1)
