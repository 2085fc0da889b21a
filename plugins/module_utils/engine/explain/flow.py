# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A connection to explain, its packets on the way through the node, and the path with every decision."""

from __future__ import annotations

from typing import Any, NamedTuple

from ..model.ipvs import VirtualServerKey, endpoint
from ..model.net import family

# Verdicts of a path.
DELIVERED = "delivered"  # to one of the path's targets
REFUSED = "refused"  # the node answers with a reset or an ICMP error
DROPPED = "dropped"  # no answer
UNBALANCED = "unbalanced"  # the packet leaves the node without IPVS
NODE = "node"  # a process on the node itself gets the packet
UNKNOWN = "unknown"  # a rule or a setting cannot be judged


class Flow(NamedTuple):
    """A new connection. ``link`` is the interface by which it arrives; "" if the node itself opens it."""

    protocol: str
    source: str
    destination: str
    port: int
    link: str = ""
    source_port: int = 40000  # of the range of ephemeral ports

    @property
    def family(self) -> int:
        """Return 4 or 6."""
        return family(self.destination)

    @property
    def key(self) -> VirtualServerKey:
        """Return the key of the virtual server that takes this flow."""
        return VirtualServerKey(self.protocol, self.destination, self.port, self.family)

    def __str__(self) -> str:
        """Return for example ``tcp 10.244.1.11 -> 10.96.0.10:53``."""
        return f"{self.protocol} {self.source} -> {endpoint(self.destination, self.port)}"


class Packet(NamedTuple):
    """A packet at one moment of its way.

    ``state`` is its state in connection tracking, ``original`` the addresses and port with which the connection began.
    ``virtual`` is the virtual server for which IPVS has sent it on. ``translation`` is the source address that it gets
    when it leaves: "" (kept), "link" (masquerade) or an address. ``from_bridge``: it came in by a port of a bridge.
    """

    protocol: str
    source: str
    destination: str
    source_port: int
    port: int
    in_link: str = ""
    out_link: str = ""
    mark: int = 0
    state: str = "NEW"
    is_dnat: bool = False
    is_reply: bool = False
    original: tuple[str, str, int] = ("", "", 0)
    virtual: VirtualServerKey | None = None
    translation: str = ""
    from_bridge: bool = False

    @property
    def family(self) -> int:
        """Return 4 or 6."""
        return family(self.destination)


class Decision(NamedTuple):
    """One decision about a packet: the stage, a sentence, and the item (kind and key) that is the evidence."""

    stage: str
    text: str
    kind: str = ""
    key: Any = None


class Outcome(NamedTuple):
    """A packet after rules: ``verdict`` is "", ``accept``, ``drop``, ``reject``, ``return`` or ``unknown``.

    ``doubts`` are the rules that cannot be judged and might have led elsewhere.
    """

    packet: Packet
    verdict: str = ""
    decisions: tuple[Decision, ...] = ()
    doubts: tuple[str, ...] = ()


class Target(NamedTuple):
    """A real server (or the destination of a DNAT) that may get the connection.

    ``client`` is the source address that it sees. ``problem`` is "" if the connection works, else the reason why the
    request does not arrive or the answer does not return.
    """

    address: str
    port: int
    weight: int
    link: str
    client: str
    is_masqueraded: bool
    problem: str = ""
    decisions: tuple[Decision, ...] = ()
    doubts: tuple[str, ...] = ()

    def __str__(self) -> str:
        """Return ``address:port``."""
        return endpoint(self.address, self.port)


class Path(NamedTuple):
    """The predicted path: the verdict, its reason, and the decisions in order.

    With the verdict ``delivered``, ``targets`` are the candidates of the scheduler. ``draining`` are real servers with
    weight 0. ``doubts`` are the rules and settings that cannot be judged. ``refuses`` is the reason why the kernel
    refuses a share of the connections, "" if it refuses none.
    """

    flow: Flow
    verdict: str
    reason: str
    decisions: tuple[Decision, ...] = ()
    targets: tuple[Target, ...] = ()
    draining: tuple[str, ...] = ()
    server: VirtualServerKey | None = None
    doubts: tuple[str, ...] = ()
    refuses: str = ""

    @property
    def arrives(self) -> bool:
        """Tell whether each candidate gets the connection, and its answer returns."""
        return self.verdict == DELIVERED and not any(target.problem for target in self.targets)

    @property
    def is_certain(self) -> bool:
        """Tell whether all rules on the way could be judged."""
        return self.verdict != UNKNOWN and not any(target.doubts for target in self.targets)

    def outcome(self) -> tuple[Any, ...]:
        """Return what a client notices: the verdict, and for each candidate the client that it sees and its problem."""
        reached = {(target.address, target.port, target.client, bool(target.problem)) for target in self.targets}
        return (self.verdict, tuple(sorted(reached)))
