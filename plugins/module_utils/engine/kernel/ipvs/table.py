# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The IPVS table: reading it into the model, and making steps true."""

from __future__ import annotations

import struct
from collections.abc import Collection, Generator, Mapping, Sequence
from errno import EEXIST, ENOENT, ESRCH
from itertools import islice
from typing import Any

from ...model.ipvs import RealServer, RealServerKey, VirtualServerKey
from ...plan.step import Step
from .. import Failure, Result, finished
from ..genetlink import GenericSocket
from . import dump, proc
from .attributes import Command
from .codec import pack_real, pack_server, unpack_connections, unpack_real
from .connection import connect
from .errors import explain
from .limits import unfit

_BATCH = 256
_A_SLICE = 4096  # lines of the file: some tens of milliseconds' worth on a slow node
_FEW = 128  # virtual servers: to ask for each of them is no more than a small part of the work of a read of the whole file

_COMMANDS = {
    ("virtual_server", "create"): Command.NEW_SERVICE,
    ("virtual_server", "change"): Command.SET_SERVICE,
    ("virtual_server", "delete"): Command.DEL_SERVICE,
    ("real_server", "create"): Command.NEW_DEST,
    ("real_server", "change"): Command.SET_DEST,
    ("real_server", "delete"): Command.DEL_DEST,
}
# What is already there is changed, and what is gone is made: the step says what shall be, not how it was.
_INSTEAD = {
    (Command.NEW_SERVICE, EEXIST): Command.SET_SERVICE,
    (Command.SET_SERVICE, ESRCH): Command.NEW_SERVICE,
    (Command.NEW_DEST, EEXIST): Command.SET_DEST,
    (Command.SET_DEST, ENOENT): Command.NEW_DEST,
}
_FULFILLED = {(Command.DEL_SERVICE, ESRCH), (Command.DEL_DEST, ENOENT), (Command.DEL_DEST, ESRCH)}
_UNPACKABLE = (struct.error, KeyError, OSError, TypeError, ValueError)


def read(precise: bool | Collection[VirtualServerKey] = False) -> dict[str, dict[Any, Any]]:
    """Return all virtual servers and real servers.

    Virtual servers come from one netlink dump. Real servers come from one read of ``/proc/net/ip_vs``, which shows neither
    thresholds nor tunnel details and shows the forwarding method bypass as masquerade. A netlink dump for each virtual server has
    it all. It is made for those that ``precise`` names (True: all), and by itself for those that have a tunnel, or whose
    firewall mark has a virtual server in both families.

    Raises:
        MissingError: no ip_vs, or no right to read it.
    """
    return finished(reading(precise))


def reading(precise: bool | Collection[VirtualServerKey] = False) -> Generator[None, None, dict[str, dict[Any, Any]]]:
    """Do what :func:`read` does, in slices. The file is read in one of them: its places move when the table changes."""
    with connect() as socket:
        servers = dump.servers(socket)
        yield
        if precise is True:
            return {"virtual_server": servers, "real_server": dump.reals(socket, servers)}
        try:
            reals, unclear = yield from _proc_reals(servers)
        except (OSError, ValueError, KeyError):  # no proc file system here, or a kernel that prints it otherwise
            reals, unclear = {}, set(servers)
        wanted = unclear.union(precise or ())
        if wanted:
            reals = {key: value for key, value in reals.items() if key.server not in wanted}
            reals.update(dump.reals(socket, wanted.intersection(servers)))
        return {"virtual_server": servers, "real_server": reals}


def read_connections(of: Collection[VirtualServerKey] | None = None) -> dict[RealServerKey, tuple[int, int]]:
    """Return how many active and inactive connections each real server has; ``of`` some virtual servers at least, or of all.

    Few virtual servers are asked for one by one. Otherwise it is one read of ``/proc/net/ip_vs``, and real servers of firewall marks are
    looked up by netlink.

    Raises:
        MissingError: no ip_vs, or no right to read it.
    """
    with connect() as socket:
        found: dict[RealServerKey, tuple[int, int]] = {}
        if of is not None and len(of) <= _FEW:
            for server in of:
                found.update(_connections(socket, server))
            return found
        marks = False
        for server, address, port, _method, _weight, active, inactive in proc.real_servers(proc.read_text()):
            if server.family == proc.UNKNOWN_FAMILY:
                marks = True
            else:
                found[RealServerKey(server, address, port)] = (active, inactive)
        if marks:
            for server in dump.servers(socket):
                if server.protocol == "fwmark":
                    found.update(_connections(socket, server))
        return found


def _connections(socket: GenericSocket, server: VirtualServerKey) -> dict[RealServerKey, tuple[int, int]]:
    return {unpack_real(server, raw)[0]: unpack_connections(raw)[:2] for raw in dump.real_attributes(socket, server)}


def _proc_reals(servers: dump.Servers) -> Generator[None, None, tuple[dump.Reals, set[VirtualServerKey]]]:
    """Return the real servers that the file shows well enough, and the virtual servers of those that it does not."""
    families: dict[int, list[VirtualServerKey]] = {}
    for key in servers:
        if key.protocol == "fwmark":
            families.setdefault(key.port, []).append(key)
    reals: dump.Reals = {}
    unclear: set[VirtualServerKey] = set()
    values: dict[tuple[int, str], RealServer] = {}  # thousands of real servers share a few values
    text = proc.read_text()
    yield
    for number, (server, address, port, method, weight, _active, _inactive) in enumerate(proc.real_servers(text), 1):
        if number % _A_SLICE == 0:
            yield
        if server.family == proc.UNKNOWN_FAMILY:
            candidates = families.get(server.port, [])
            if len(candidates) != 1:
                unclear.update(candidates)
                continue
            server = candidates[0]
        if method == "tunnel":
            unclear.add(server)
        value = values.get((weight, method))
        if value is None:
            value = values[weight, method] = RealServer(weight, method)
        if server in servers:  # not one that appeared between the two reads
            reals[RealServerKey(server, address, port)] = value
    return reals, unclear


def apply(steps: list[Step], keep_going: bool = False) -> Result:
    """Make steps true, in their order, many to a system call.

    Creating what exists changes it in place, changing what is gone creates it, deleting what is gone is success. A real server
    whose virtual server could not be made fails after it.

    Without ``keep_going`` the first batch with a failure is the last. The kernel goes on after a step that it refuses, so the
    result has steps of this batch that stand behind the failed one, done or failed.

    Raises:
        MissingError: no ip_vs; nothing was done.
    """
    done: list[Step] = []
    failed: list[Failure] = []
    with connect() as socket:
        rest = iter(steps)
        while batch := list(islice(rest, _BATCH)):
            texts = _apply_batch(socket, batch)
            done.extend(step for index, step in enumerate(batch) if index not in texts)
            failed.extend(Failure(batch[index], texts[index]) for index in sorted(texts))
            if failed and not keep_going:
                break
    return Result(done, failed)


def _apply_batch(socket: GenericSocket, batch: Sequence[Step]) -> dict[int, str]:
    """Return why steps failed, by their index."""
    texts: dict[int, str] = {}
    refusals = _send(socket, batch, {index: _COMMANDS[step.kind, step.verb] for index, step in enumerate(batch)}, texts)
    second = _second_try(batch, refusals)
    if second:
        refusals = {index: refusal for index, refusal in refusals.items() if index not in second}
        refusals.update(_send(socket, batch, second, texts))
    for index, (command, code) in refusals.items():
        if (command, code) not in _FULFILLED:
            texts[index] = explain(command, code, *_item(batch[index]))
    return texts


def _second_try(batch: Sequence[Step], refusals: Mapping[int, tuple[int, int]]) -> dict[int, int]:
    """Return what to ask for instead; real servers whose virtual server had to be made again are new ones."""
    second = {index: _INSTEAD[refusal] for index, refusal in refusals.items() if refusal in _INSTEAD}
    remade = {batch[index].key for index in second if batch[index].kind == "virtual_server"}
    for index, (command, code) in refusals.items():
        if code == ESRCH and command in (Command.NEW_DEST, Command.SET_DEST) and batch[index].key.server in remade:
            second[index] = Command.NEW_DEST
    return dict(sorted(second.items()))


def _send(
    socket: GenericSocket, batch: Sequence[Step], commands: Mapping[int, int], texts: dict[int, str]
) -> dict[int, tuple[int, int]]:
    """Send commands for the steps with these indexes; return command and errno of those that the kernel refused.

    A step that cannot be packed gets its text at once.
    """
    messages: dict[int, bytes] = {}
    for index, command in commands.items():
        try:
            messages[index] = _message(socket, command, batch[index])
        except _UNPACKABLE:
            texts[index] = unfit(*_item(batch[index]))
    outcome = socket.request(list(messages.values()))
    return {index: (commands[index], code) for index, code in zip(messages, outcome) if code}


def _message(socket: GenericSocket, command: int, step: Step) -> bytes:
    if step.kind == "virtual_server":
        return socket.message(command, 0, pack_server(step.key, step.after))
    return socket.message(command, 0, pack_server(step.key.server) + pack_real(step.key, step.after))


def _item(step: Step) -> tuple[str, Any, Any]:
    return step.kind, step.key, step.after
