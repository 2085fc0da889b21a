# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the kernel tells by itself, and what is done about it: what is ours is mended, what is the node's is followed."""

from __future__ import annotations

import socket
import time
from typing import TYPE_CHECKING

from ..engine.desired.node_addresses import DUMMY, LOOPBACK
from ..engine.errors import EngineError
from ..engine.model.link import AddressKey, RouteKey
from .events import Events
from .pace import Pace
from .rule_events import RuleEvents

if TYPE_CHECKING:
    from .agent import Agent

_REST = 0.05  # seconds in which links, addresses and routes may change before that is heard, so that many are heard together
_CALM = 0.2  # seconds after which changed rules, or addresses of the node, are looked at


class Hearing:
    """Hears nothing before :meth:`listen`.

    However often others change the node, or undo what we do: mending takes a tenth of the time at the most, and looking whether there is
    something to mend, and following the node's addresses, a twentieth each.
    """

    def __init__(self, agent: Agent) -> None:
        self._agent = agent
        self._events: Events | None = None
        self._rule_events: RuleEvents | None = None
        self._look = Pace(agent.loop, agent.look, self._cost, calm=_CALM, share=0.05)  # a change of rules is seldom one of ours
        self._mend = Pace(agent.loop, self._mend_now, self._cost, calm=0.0, share=0.1)
        self._follow = Pace(agent.loop, self._use_node, lambda: self._following, calm=_CALM, share=0.05)
        self._following = 0.0  # seconds that it took last
        self._lost = False

    def close(self) -> None:
        """Hear no more."""
        for thing in (self._events, self._rule_events):
            if thing is not None:
                thing.close()

    def listen(self) -> None:
        """Open all ears that are not open yet.

        Raises:
            OSError: one cannot be opened.
        """
        agent = self._agent
        if self._events is None:
            self._events = Events()
            agent.loop.watch(self._events, self._heard)
        self._events.follow_routes(agent.wanted.config.vip_binding == "routes")
        if self._rule_events is None:
            self._rule_events = RuleEvents()
            agent.loop.watch(self._rule_events, self._rules_changed)

    def _cost(self) -> float:
        return self._agent.last.seconds if self._agent.last is not None else 0.0

    def _heard(self) -> None:
        """Links, addresses or routes changed: mend what is ours at once, follow what is the node's."""
        if self._events is None:
            return
        self._agent.loop.rest(self._events, self._heard, _REST)
        events = self._events.read()
        if events is None:
            self._lost = True
            self._follow.soon()
            self._mend.soon()
            return
        want = self._agent.reconciler.want
        routes, addresses, ours, loopback = want.get("route", {}), want.get("address", {}), _number(DUMMY), _number(LOOPBACK)
        hurt = node = False
        for event in events:
            if event.what == "link":
                hurt = hurt or (event.link == DUMMY and (event.gone or event.up)) or (event.link == LOOPBACK and bool(routes))
            elif event.what == "route":
                hurt = hurt or (event.link_index == loopback and RouteKey(LOOPBACK, event.network) in routes)
            elif event.link_index == ours:
                hurt = hurt or (event.gone and AddressKey(DUMMY, event.address, 128 if ":" in event.address else 32) in addresses)
            else:
                node = node or not event.address.startswith("fe80:")
        if node:
            self._follow.soon()
        if hurt and DUMMY in want.get("link", {}):
            self._mend.soon()

    def _mend_now(self) -> None:
        lost, self._lost = self._lost, False
        self._agent.full("events lost" if lost else "kernel event")

    def _use_node(self) -> None:
        """Look at the node's addresses again; they have come to rest, or keep changing."""
        start = time.monotonic()
        try:
            self._agent.wanted.use_node()
        except EngineError as error:
            self._agent.log.error("the node's addresses cannot be read", reason=str(error))
        else:
            self._agent.changed()
        self._following = time.monotonic() - start

    def _rules_changed(self) -> None:
        """Somebody, we perhaps, changed rules: see in a moment what became of ours."""
        if self._rule_events is None:
            return
        self._agent.loop.rest(self._rule_events, self._rules_changed, _CALM)
        if self._rule_events.heard():
            self._look.soon()


def _number(link: str) -> int:
    """Return a link's number, -1 if there is no such link."""
    try:
        return socket.if_nametoindex(link)
    except OSError:
        return -1
