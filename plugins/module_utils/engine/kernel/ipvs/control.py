# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""IPVS settings of the whole network namespace: timeouts, version, counters, synchronisation daemons."""

from __future__ import annotations

import errno
import os
import struct
from collections.abc import Callable
from typing import NamedTuple

from ...errors import InputError, KernelError
from ...model.ipvs import LONGEST_TIMEOUT, SyncDaemon, VirtualServerKey
from ...model.net import pack as pack_address
from ...model.net import unpack as unpack_address
from ..decoding import decoding
from ..genetlink import HEADER_BYTES
from ..netlink import NLA_F_NESTED, attribute, attributes
from .attributes import Command, Info, Top
from .attributes import Daemon as Attr
from .codec import U8, U16, U32, body, pack_server
from .connection import connect
from .errors import explain

_STATES = {"master": 1, "backup": 2}
_STATE_NAMES = {number: name for name, number in _STATES.items()}
_TIMEOUTS = (Top.TIMEOUT_TCP, Top.TIMEOUT_TCP_FIN, Top.TIMEOUT_UDP)


class Timeouts(NamedTuple):
    """Timeouts of idle connections in seconds; 0 in :func:`set_timeouts` keeps the present value."""

    tcp: int = 0
    tcp_fin: int = 0
    udp: int = 0


class Version(NamedTuple):
    """IPVS's version, for example ``1.2.1``, and the number of buckets of its connection table."""

    version: str
    connection_table_size: int


def get_timeouts() -> Timeouts:
    """Return the timeouts."""
    with connect() as socket, decoding("the kernel's IPVS timeouts"):
        (payload,) = socket.query(socket.message(Command.GET_CONFIG))
        fields = attributes(payload, HEADER_BYTES)
        return Timeouts(*(U32.unpack(fields[number])[0] for number in _TIMEOUTS))


def set_timeouts(wanted: Timeouts) -> None:
    """Set the timeouts that are not 0.

    Raises:
        InputError: a value that the kernel cannot hold.
    """
    payload = b""
    for field, number, seconds in zip(Timeouts._fields, _TIMEOUTS, wanted):
        if not 0 <= seconds <= LONGEST_TIMEOUT:
            raise InputError("IPVS timeouts", field, seconds, f"seconds from 0 (keep) to {LONGEST_TIMEOUT}")
        if seconds:
            payload += attribute(number, U32.pack(seconds))
    if payload:
        _ask(Command.SET_CONFIG, payload, lambda code: f"IPVS timeouts cannot be set: {os.strerror(code)}")


def info() -> Version:
    """Return version and size."""
    with connect() as socket, decoding("the kernel's IPVS version"):
        (payload,) = socket.query(socket.message(Command.GET_INFO))
        fields = attributes(payload, HEADER_BYTES)
        code = U32.unpack(fields[Info.VERSION])[0]
        return Version(f"{code >> 16 & 255}.{code >> 8 & 255}.{code & 255}", U32.unpack(fields[Info.CONN_TAB_SIZE])[0])


def zero(server: VirtualServerKey | None = None) -> None:
    """Set the counters of one virtual server and its real servers to zero, or of all and of IPVS itself.

    Raises:
        KernelError: there is no such virtual server.
    """
    if server is None:
        _ask(Command.ZERO, b"", lambda code: f"IPVS counters cannot be zeroed: {os.strerror(code)}")
    else:
        _ask(Command.ZERO, pack_server(server), lambda code: explain(Command.ZERO, code, "virtual_server", server))


def flush() -> None:
    """Remove all virtual servers, of every owner."""
    _ask(Command.FLUSH, b"", lambda code: f"the IPVS table cannot be flushed: {os.strerror(code)}")


def daemons() -> dict[str, SyncDaemon]:
    """Return the running synchronisation daemons, by ``master`` and ``backup``."""
    with connect() as socket, decoding("the kernel's IPVS synchronisation daemons"):
        return dict(_unpack(body(payload)) for payload in socket.dump(socket.message(Command.GET_DAEMON)))


def start_daemon(state: str, daemon: SyncDaemon) -> None:
    """Start a synchronisation daemon, ``master`` or ``backup``.

    Raises:
        InputError: a field does not fit.
        KernelError: a daemon of this state runs already, the interface is absent, or the group is not multicast.
    """
    words = {
        errno.EEXIST: "one is running already",
        errno.ENODEV: f"there is no interface {daemon.interface}",
        errno.EINVAL: (
            "the kernel refused a value (the group must be a multicast address; a virtual server must not have real"
            " servers of the other family)"
        ),
    }
    _ask(Command.NEW_DAEMON, _pack(state, daemon), _daemon_words(state, "started", words))


def stop_daemon(state: str) -> None:
    """Stop the daemon of this state.

    Raises:
        KernelError: none is running.
    """
    payload = attribute(Top.DAEMON | NLA_F_NESTED, attribute(Attr.STATE, U32.pack(_state(state))))
    _ask(Command.DEL_DAEMON, payload, _daemon_words(state, "stopped", {errno.ESRCH: "none is running"}))


def _daemon_words(state: str, verb: str, words: dict[int, str]) -> Callable[[int], str]:
    return lambda code: f"IPVS synchronisation daemon {state} cannot be {verb}: {words.get(code) or os.strerror(code)}"


def _ask(command: int, payload: bytes, words: Callable[[int], str]) -> None:
    with connect() as socket:
        (code,) = socket.request([socket.message(command, 0, payload)])
        if code == errno.EPERM:
            raise PermissionError(code, os.strerror(code))
    if code:
        raise KernelError(words(code))


def _state(state: str) -> int:
    if state not in _STATES:
        raise InputError("IPVS synchronisation daemon", "state", state, "master or backup")
    return _STATES[state]


def _pack(state: str, daemon: SyncDaemon) -> bytes:
    subject = f"IPVS synchronisation daemon {state}"
    interface = daemon.interface.encode("utf-8", "surrogateescape")
    if not 0 < len(interface) < 16:
        raise InputError(subject, "interface", daemon.interface, "the name of an interface, at most 15 bytes")
    parts = [attribute(Attr.STATE, U32.pack(_state(state))), attribute(Attr.MCAST_IFN, interface + b"\0")]
    for field, number, form, given in (
        ("sync_id", Attr.SYNC_ID, U32, daemon.sync_id),
        ("max_length", Attr.SYNC_MAXLEN, U16, daemon.max_length),
        ("port", Attr.MCAST_PORT, U16, daemon.port),
        ("ttl", Attr.MCAST_TTL, U8, daemon.ttl),
    ):
        if field == "sync_id" and not 0 <= given <= 255:
            raise InputError(subject, field, given, "a number from 0 to 255")
        try:
            if given or field == "sync_id":
                parts.append(attribute(number, form.pack(given)))
        except struct.error:
            raise InputError(subject, field, given, f"a number from 0 to {256**form.size - 1}") from None
    if daemon.group:
        try:
            raw = pack_address(daemon.group)
        except OSError:
            raise InputError(subject, "group", daemon.group, "a multicast address") from None
        parts.append(attribute(Attr.MCAST_GROUP if len(raw) == 4 else Attr.MCAST_GROUP6, raw))
    return attribute(Top.DAEMON | NLA_F_NESTED, b"".join(parts))


def _unpack(fields: dict[int, bytes]) -> tuple[str, SyncDaemon]:
    group = fields.get(Attr.MCAST_GROUP6) or fields.get(Attr.MCAST_GROUP)
    return _STATE_NAMES[U32.unpack(fields[Attr.STATE])[0]], SyncDaemon(
        fields[Attr.MCAST_IFN].rstrip(b"\0").decode("utf-8", "surrogateescape"),
        U32.unpack(fields[Attr.SYNC_ID])[0],
        U16.unpack(fields[Attr.SYNC_MAXLEN])[0] if Attr.SYNC_MAXLEN in fields else 0,
        unpack_address(group) if group else "",
        U16.unpack(fields[Attr.MCAST_PORT])[0] if Attr.MCAST_PORT in fields else 0,
        fields[Attr.MCAST_TTL][0] if Attr.MCAST_TTL in fields else 0,
    )
