# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The choice that IPVS makes for a new connection: the virtual server, and the real servers that may get it."""

from __future__ import annotations

from typing import NamedTuple

from ..model.ipvs import PERSISTENT, SCHED1, RealServer, RealServerKey, VirtualServerKey
from ..model.net import contains, network
from .flow import Decision, Packet
from .view import NodeView

STAGE = "virtual server"
_HASHING = ("mh", "sh", "dh")


class Schedule(NamedTuple):
    """Real servers that may get a new connection, those that drain, and the decisions.

    ``refuses`` is the reason why the kernel refuses a share of the connections, "" if it refuses none.
    """

    candidates: tuple[tuple[RealServerKey, RealServer], ...]
    draining: tuple[str, ...]
    decisions: tuple[Decision, ...]
    refuses: str = ""


def find_server(view: NodeView, packet: Packet) -> tuple[VirtualServerKey, tuple[Decision, ...]] | None:
    """Return the virtual server of a packet: by firewall mark, by address and port, or by address for all ports."""
    fam = packet.family
    keys = [VirtualServerKey(packet.protocol, packet.destination, packet.port, fam)]
    if packet.mark:
        keys.insert(0, VirtualServerKey("fwmark", "", packet.mark, fam))
    keys.append(keys[-1]._replace(port=0))
    for key in keys:
        value = view.server(key)
        if value is not None:
            words = [f"scheduler {value.scheduler}"]
            if value.flags & PERSISTENT:
                words.append(f"persistent for {value.timeout} s")
            text = f"virtual server {key} takes it: {', '.join(words)}"
            return key, (Decision(STAGE, text, "virtual_server", key),)
    return None


def schedule(view: NodeView, key: VirtualServerKey, client: str) -> Schedule:
    """Return the real servers that the scheduler may choose for a client."""
    server = view.server(key)
    reals = view.real_servers(key)
    present = {real: value for real, value in reals.items() if not _is_overloaded(view, real, value)}
    overloaded = tuple(sorted(str(real) for real in reals if real not in present))
    usable = {real: value for real, value in present.items() if value.weight > 0}
    draining = tuple(sorted(_name(real) for real, value in reals.items() if value.weight == 0))
    decisions = []
    if server is not None and server.flags & PERSISTENT:
        pinned = _pinned(view, key, client, server.netmask)
        if pinned is not None and pinned in reals:
            expires = view.sysctl("net.ipv4.vs.expire_quiescent_template", "0") == "1"
            if reals[pinned].weight > 0 or not expires:
                text = f"the client's earlier connections went to {_name(pinned)}, so this one does, too (persistence)"
                decisions.append(Decision(STAGE, text, "real_server", pinned))
                return Schedule(((pinned, reals[pinned]),), draining, tuple(decisions))
    if not usable:
        if not reals:
            text = f"{key} has no real server: the kernel refuses the connection"
        elif overloaded and len(overloaded) + len(draining) >= len(reals):
            text = f"each real server of {key} has reached its upper threshold or drains: the kernel refuses it"
        else:
            text = f"each real server of {key} has weight 0: the kernel refuses the connection"
        decisions.append(Decision(STAGE, text, "virtual_server", key))
        return Schedule((), draining, tuple(decisions))
    shares = ", ".join(f"{_name(real)} weight {value.weight}" for real, value in sorted(usable.items())[:8])
    more = f" and {len(usable) - 8} others" if len(usable) > 8 else ""
    decisions.append(Decision(STAGE, f"it may go to {shares}{more}", "virtual_server", key))
    if draining:
        decisions.append(Decision(STAGE, f"new connections do not go to {', '.join(draining[:8])}: weight 0"))
    refuses = ""
    if server is not None and server.scheduler in _HASHING and not server.flags & SCHED1 and server.scheduler != "dh":
        idle = [real for real, value in reals.items() if value.weight == 0 or real not in present]
        if idle:
            refuses = (
                f"scheduler {server.scheduler} of {key} has no fallback: the kernel refuses the share of connections"
                f" that belongs to {', '.join(sorted(_name(real) for real in idle)[:3])}"
            )
    return Schedule(tuple(sorted(usable.items())), draining, tuple(decisions), refuses)


def _name(real: RealServerKey) -> str:
    return str(real).partition(" of ")[0]


def _is_overloaded(view: NodeView, real: RealServerKey, value: RealServer) -> bool:
    if not value.upper_threshold:
        return False
    return sum(view.host.connections.get(real, (0, 0))) >= value.upper_threshold


def _pinned(view: NodeView, key: VirtualServerKey, client: str, netmask: int) -> RealServerKey | None:
    """Return the real server of the client's persistence template; the netmask groups clients."""
    for template in view.host.templates:
        if template.server == key and contains(network(f"{template.client}/{netmask}"), client):
            return RealServerKey(key, template.address, template.port)
    return None
