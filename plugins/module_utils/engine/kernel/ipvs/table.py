# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Read the IPVS table into the model, and execute steps on it."""

from __future__ import annotations

import struct
from collections.abc import Collection, Generator, Iterable, Mapping, Sequence
from contextlib import nullcontext
from errno import EEXIST, ENOENT, ESRCH
from itertools import islice
from typing import TYPE_CHECKING, Any

from ...errors import KernelError
from ...model.ipvs import RealServer, RealServerKey, VirtualServerKey
from ...model.step import Step
from .. import Failure, Result, finished
from ..decoding import decoding
from ..genetlink import GenericSocket
from . import dump, proc
from .attributes import Command
from .codec import pack_real, pack_server, unpack_connections, unpack_real
from .connection import as_errors, connect, is_reloaded
from .errors import explain
from .limits import unfit

if TYPE_CHECKING:
    from .fingerprint import IpvsFingerprint

_BATCH = 256
_ASKED = 32  # requests for single virtual servers in a slice: some tens of milliseconds on a slow node
# virtual servers: up to this number, single requests are much cheaper than a read of the whole file
_FEW = 128

_COMMANDS = {
    ("virtual_server", "create"): Command.NEW_SERVICE,
    ("virtual_server", "change"): Command.SET_SERVICE,
    ("virtual_server", "delete"): Command.DEL_SERVICE,
    ("real_server", "create"): Command.NEW_DEST,
    ("real_server", "change"): Command.SET_DEST,
    ("real_server", "delete"): Command.DEL_DEST,
}
# Creating what exists becomes a change, changing what is absent a creation: a step states the result, not the start.
_INSTEAD = {
    (Command.NEW_SERVICE, EEXIST): Command.SET_SERVICE,
    (Command.SET_SERVICE, ESRCH): Command.NEW_SERVICE,
    (Command.NEW_DEST, EEXIST): Command.SET_DEST,
    (Command.SET_DEST, ENOENT): Command.NEW_DEST,
}
_FULFILLED = {(Command.DEL_SERVICE, ESRCH), (Command.DEL_DEST, ENOENT), (Command.DEL_DEST, ESRCH)}
_real_key = tuple.__new__  # takes a third of the class's time, for a hundred thousand keys
_UNPACKABLE = (struct.error, KeyError, OSError, TypeError, ValueError)


def read(precise: bool | Collection[VirtualServerKey] = False) -> dict[str, dict[Any, Any]]:
    """Return all virtual servers and real servers.

    Virtual servers come from one netlink dump. Real servers come from one read of ``/proc/net/ip_vs``, which shows
    neither thresholds nor tunnel details and shows the forwarding method bypass as masquerade. Only a netlink dump for
    each virtual server is complete. It is made for those that ``precise`` names (True: all), for those with a tunnel,
    and for firewall marks with a virtual server in both families.

    Raises:
        MissingError: no ip_vs, or no right to read it.
    """
    return finished(reading(precise))


def read_address(key: VirtualServerKey) -> dict[str, dict[Any, Any]]:
    """Return the virtual servers of an address and those of firewall marks, with their real servers in all details.

    Raises:
        MissingError: no ip_vs, or no right to read it.
    """
    with connect() as socket:
        servers = dump.servers_of(socket, key)
        return {"virtual_server": servers, "real_server": dump.reals(socket, servers)}


def read_details(of: Iterable[VirtualServerKey]) -> dict[RealServerKey, RealServer]:
    """Return the real servers of these virtual servers in all details.

    Raises:
        MissingError: no ip_vs, or no right to read it.
    """
    with connect() as socket:
        return dump.reals(socket, of)


def reading(
    precise: bool | Collection[VirtualServerKey] = False, fingerprint: IpvsFingerprint | None = None
) -> Generator[None, None, dict[str, dict[Any, Any]]]:
    """Do as :func:`read`, in slices, between which the table may change. ``fingerprint`` becomes that of the result.

    All virtual servers are of one moment, and so are the real servers of each. If others were created or removed
    between two slices, the file may show a virtual server twice or not at all; netlink then reads it.
    """
    with connect() as socket:
        servers = yield from dump.reading_servers(socket, fingerprint.add_servers if fingerprint else None)
        wanted = set(servers) if precise is True else servers.keys() & (precise or ())
        reals: dump.Reals = {}
        if len(wanted) < len(servers):
            try:
                reals, unclear = yield from _proc_reals(servers, wanted, fingerprint)
            except (OSError, ValueError, KeyError):  # no proc file system, or another form of the file
                reals, unclear = {}, set(servers)
            if fingerprint is not None and not unclear:
                fingerprint.end()
            if unclear:
                reals = {key: value for key, value in reals.items() if key.server not in unclear}
                wanted |= unclear
        for number, server in enumerate(wanted, 1):
            reals.update(dump.reals(socket, (server,)))
            if number % _ASKED == 0:
                yield
        return {"virtual_server": servers, "real_server": reals}


def read_connections(of: Collection[VirtualServerKey] | None = None) -> dict[RealServerKey, tuple[int, int]]:
    """Return the numbers of active and inactive connections of each real server.

    With ``of``, the result covers at least these virtual servers. Without it, the result covers all.

    Few virtual servers take one request each. Otherwise one read of ``/proc/net/ip_vs`` is made, and real servers of
    firewall marks come by netlink.

    Raises:
        MissingError: no ip_vs, or no right to read it.
    """
    with connect() as socket:
        connections: dict[RealServerKey, tuple[int, int]] = {}
        if of is not None and len(of) <= _FEW:
            for server in of:
                connections.update(_connections(socket, server))
            return connections
        marks = False
        records = proc.Records()
        with decoding(f"{dump.TABLE} in {proc.PATH}"):
            for piece in proc.pieces():
                for server, address, port, _method, _weight, active, inactive in records.real_servers(piece):
                    if server.family == proc.UNKNOWN_FAMILY:
                        marks = True
                    else:
                        connections[RealServerKey(server, address, port)] = (int(active), int(inactive))
        if marks:
            for server in dump.servers(socket):
                if server.protocol == "fwmark":
                    connections.update(_connections(socket, server))
        return connections


def _connections(socket: GenericSocket, server: VirtualServerKey) -> dict[RealServerKey, tuple[int, int]]:
    with decoding(dump.TABLE):
        return {
            unpack_real(server, raw)[0]: unpack_connections(raw)[:2] for raw in dump.real_attributes(socket, server)
        }


def _proc_reals(
    servers: dump.Servers, but: Collection[VirtualServerKey], fingerprint: IpvsFingerprint | None
) -> Generator[None, None, tuple[dump.Reals, set[VirtualServerKey]]]:
    """Return the real servers that the file shows completely, and the virtual servers of the others.

    Virtual servers in ``but`` are left out of both.
    """
    families: dict[int, list[VirtualServerKey]] = {}
    for key in servers:
        if key.protocol == "fwmark":
            families.setdefault(key.port, []).append(key)
    reals: dump.Reals = {}
    unclear: set[VirtualServerKey] = set()
    values: dict[tuple[str, str], RealServer] = {}  # thousands of real servers share a few values
    records = proc.Records()
    shown: VirtualServerKey | None = None
    server: VirtualServerKey | None = None  # the shown one, if its real servers are wanted
    for piece in proc.pieces():
        if fingerprint is not None:
            fingerprint.add_piece(piece)
        for entry, address, port, method, weight, _active, _inactive in records.real_servers(piece):
            if entry is not shown:
                shown = entry
                known = families.get(entry.port, ()) if entry.family == proc.UNKNOWN_FAMILY else (entry,)
                server = known[0] if len(known) == 1 and known[0] in servers and known[0] not in but else None
            if server is None:
                continue
            if method == "Tunnel":
                unclear.add(server)
            value = values.get((weight, method))
            if value is None:
                value = values[weight, method] = RealServer(int(weight), proc.FORWARDING_METHODS[method])
            reals[_real_key(RealServerKey, (server, address, port))] = value
        yield
    for key in servers:
        shows = VirtualServerKey("fwmark", "", key.port, proc.UNKNOWN_FAMILY) if key.protocol == "fwmark" else key
        if records.seen.get(shows) != 1:
            unclear.add(key)
    return reals, unclear.difference(but)


def apply(steps: list[Step], keep_going: bool = False, lasting: GenericSocket | None = None) -> Result:
    """Execute steps in their order, many to a system call.

    ``lasting`` is a socket that stays open afterwards; None for one of its own.

    Creating what exists changes it in place, changing what is absent creates it, deleting what is absent succeeds. A
    real server fails after its virtual server failed.

    Without ``keep_going`` the first batch with a failure is the last. The kernel goes on after a step that it refuses,
    so the result also has later steps of this batch, done or failed.

    Raises:
        MissingError: no ip_vs; nothing was done.
        KernelError: the conversation ended (only with ``keep_going``).
    """
    done: list[Step] = []
    failed: list[Failure] = []
    batch: list[Step] = []
    try:
        with connect() if lasting is None else nullcontext(lasting) as socket, as_errors():
            rest = iter(steps)
            while batch := list(islice(rest, _BATCH)):
                texts = _apply_batch(socket, batch)
                done.extend(step for index, step in enumerate(batch) if index not in texts)
                failed.extend(Failure(batch[index], texts[index]) for index in sorted(texts))
                if failed and not keep_going:
                    break
    except KernelError as error:
        if keep_going or not batch:
            raise
        return Result([*done, *batch], [*failed, Failure(batch[0], str(error))])
    return Result(done, failed)


def _apply_batch(socket: GenericSocket, batch: Sequence[Step]) -> dict[int, str]:
    """Return the reasons of failed steps, by index."""
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
    """Return the commands for a second try; real servers of a re-created virtual server are new."""
    second = {index: _INSTEAD[refusal] for index, refusal in refusals.items() if refusal in _INSTEAD}
    remade = {batch[index].key for index in second if batch[index].kind == "virtual_server"}
    for index, (command, code) in refusals.items():
        if code == ESRCH and command in (Command.NEW_DEST, Command.SET_DEST) and batch[index].key.server in remade:
            second[index] = Command.NEW_DEST
    return dict(sorted(second.items()))


def _send(
    socket: GenericSocket, batch: Sequence[Step], commands: Mapping[int, int], texts: dict[int, str]
) -> dict[int, tuple[int, int]]:
    """Send commands for the steps with these indexes; return command and errno of refused ones.

    A step that cannot be packed gets its reason at once.
    """
    messages: dict[int, bytes] = {}
    for index, command in commands.items():
        try:
            messages[index] = _message(socket, command, batch[index])
        except _UNPACKABLE:
            texts[index] = unfit(*_item(batch[index]))
    outcome = socket.request(list(messages.values()))
    if ENOENT in outcome and is_reloaded(socket):
        return _send(socket, batch, commands, texts)
    return {index: (commands[index], code) for index, code in zip(messages, outcome) if code}


def _message(socket: GenericSocket, command: int, step: Step) -> bytes:
    if step.kind == "virtual_server":
        return socket.message(command, 0, pack_server(step.key, step.after))
    return socket.message(command, 0, pack_server(step.key.server) + pack_real(step.key, step.after))


def _item(step: Step) -> tuple[str, Any, Any]:
    return step.kind, step.key, step.after
