# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This module util is PRIVATE to the collection. It can change at any time, do not use it from outside.

"""Options ``timeouts`` and ``sync_daemons`` of ``ipvs_services``, converted to model items."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .._module.argspec import address, number, unique
from ..engine.errors import InputError
from ..engine.kernel.ipvs.settings import apply, read
from ..engine.model import net
from ..engine.model.ipvs import LONGEST_TIMEOUT, SyncDaemon

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from .._module.planning import TaskChange
    from ..engine.model import Items, ReadState, State

__all__ = ["TABLE", "apply", "check", "complete", "read"]

TABLE = "ipvs_settings"

# A datagram of 65535 bytes, less the headers of IP and UDP. The kernel silently replaces a value outside of its range
# by the nearest one.
_LONGEST = {4: 65507, 6: 65487}
_SHORTEST = {"master": 1, "backup": 1024}
_MULTICAST = ("224.0.0.0/4", "ff00::/8")


def check(params: Mapping[str, Any], want: State, absent: dict[str, set[Any]]) -> None:
    """Add timeouts and daemons to ``want`` and ``absent``; a kind that the task does not mention is not added.

    Raises:
        EngineError: a value is invalid, or a daemon is listed twice.
    """
    if params["timeouts"] is not None:
        want["ipvs_timeout"] = _timeouts(params["timeouts"])
    if params["sync_daemons"] is not None:
        want["sync_daemon"], absent["sync_daemon"] = _sync_daemons(params["sync_daemons"])


def complete(change: TaskChange, have: ReadState) -> TaskChange:
    """Return the change, completed from the present state.

    A daemon without a wanted datagram length keeps its present one.
    """
    want, scope = dict(change.want), dict(change.scope)
    if "sync_daemon" in want:
        running = scope["sync_daemon"] = have["sync_daemon"]
        want["sync_daemon"] = {
            role: daemon._replace(max_length=running[role].max_length)
            if role in running and not daemon.max_length
            else daemon
            for role, daemon in want["sync_daemon"].items()
        }
    return change._replace(want=want, scope=scope, common={"ipvs_timeout": set(want.get("ipvs_timeout", ()))})


def _timeouts(given: Mapping[str, int | None]) -> Items:
    for field, seconds in given.items():
        number("timeouts", field, seconds or 0, 0, LONGEST_TIMEOUT)
    return {field: seconds for field, seconds in given.items() if seconds}


def _sync_daemons(given: Iterable[Mapping[str, Any]]) -> tuple[Items, set[Any]]:
    want: Items = {}
    absent: set[Any] = set()
    seen: dict[str, str] = {}
    for index, options in enumerate(given):
        option_path = f"sync_daemons[{index}]"
        role = options["role"]
        unique(seen, role, option_path)
        if options["state"] == "absent":
            absent.add(role)
        else:
            want[role] = _daemon(f"{option_path} ({role})", role, options)
    return want, absent


def _daemon(subject: str, role: str, options: Mapping[str, Any]) -> SyncDaemon:
    interface = options["interface"]
    if not interface or len(interface.encode("utf-8", "surrogateescape")) > 15:
        raise InputError(subject, "interface", interface, "the name of an interface, at most 15 bytes")
    group = address(subject, "group", options["group"])
    if not any(net.contains(network, group) for network in _MULTICAST):
        raise InputError(subject, "group", group, "a multicast address")
    length = options["maxlen"]
    if length:
        number(subject, "maxlen", length, _SHORTEST[role], _LONGEST[net.family(group)])
    return SyncDaemon(
        interface,
        number(subject, "sync_id", options["sync_id"], 0, 255),
        length,
        group,
        number(subject, "port", options["port"], 1, 65535),
        number(subject, "ttl", options["ttl"], 1, 255),
    )
