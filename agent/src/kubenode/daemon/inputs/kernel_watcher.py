# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""React to kernel events: repair the agent's objects, track the node's addresses."""

from __future__ import annotations

import socket
import time

from ...engine.desired.node_addresses import DUMMY, LOOPBACK
from ...engine.kernel.nfnetlink.monitor import RuleEvents
from ...engine.kernel.rtnetlink.monitor import Events
from ...engine.model.link import AddressKey, RouteKey
from ..interfaces import AgentControl
from ..pass_result import KERNEL_EVENT, STOPPED, PassResult, PassSubscriber
from .pace import Limits, Pace

# seconds between two readings of link, address and route events, so that many are read together
_REST = 0.05
_CALM = 0.2  # seconds between an event of rules and its reading, or of addresses and the reading of the node's
_BURST = 10.0  # seconds of repairs that do not wait for each other


class KernelWatcher(PassSubscriber):
    """Subscriptions to links, addresses, routes and rules; none is open before :meth:`listen`.

    Repairs take a tenth of the time at most, however often another process changes the node. Comparisons after rule
    events, and reading the node's addresses, take a twentieth each. The first ten seconds of repairs and comparisons do
    not wait: most changes do not come again.
    """

    def __init__(self, agent: AgentControl) -> None:
        self._agent = agent
        self._events: Events | None = None
        self._rule_events: RuleEvents | None = None
        looking, mending = Limits(calm=0.0, share=0.05, burst=_BURST), Limits(calm=0.0, share=0.1, burst=_BURST)
        self._look = Pace(agent.loop, agent.look_at_rules, lambda: self._passing, looking)
        self._mend = Pace(agent.loop, self._mend_now, lambda: self._passing, mending)
        self._passing = 0.0  # seconds that the last full pass, or repair of rules alone, took
        limits = Limits(calm=_CALM, share=0.05, burst=0.0)
        self._follow = Pace(agent.loop, self._use_node, lambda: self._following, limits)
        self._following = 0.0  # seconds that the last reading of the node's addresses took
        self._events_lost = False

    def close(self) -> None:
        """Close all subscriptions."""
        for subscription in (self._events, self._rule_events):
            if subscription is not None:
                subscription.close()

    def passed(self, result: PassResult, reason: str) -> None:
        """Note how long a pass took; open subscriptions that could not be opened before."""
        if result.full or reason == KERNEL_EVENT:
            self._passing = result.seconds
        if result.full:
            self.listen()

    def listen(self) -> None:
        """Open missing subscriptions. If one cannot be opened, the next full pass tries again."""
        try:
            self._listen()
        except OSError as error:
            message = "kernel events not watched; drift is found once in a syncPeriod"
            self._agent.log.error(message, reason=str(error))

    def _listen(self) -> None:
        agent = self._agent
        if self._events is None:
            self._events = Events()
            agent.loop.watch(self._events, self._network_changed)
        self._events.follow_routes(agent.desired.config.vip_binding == "routes")
        if self._rule_events is None:
            self._rule_events = RuleEvents()
            agent.loop.watch(self._rule_events, self._rules_changed)

    def _network_changed(self) -> None:
        """Links, addresses or routes changed: repair the agent's at once, track the node's."""
        if self._events is None:
            return
        self._agent.loop.rest(self._events, self._network_changed, _REST)
        events = self._events.read()
        if events is None:
            self._events_lost = True
            self._follow.soon()
            self._mend.soon()
            return
        want = self._agent.reconciler.want
        routes, addresses = want.get("route", {}), want.get("address", {})
        dummy, loopback = _number(DUMMY), _number(LOOPBACK)
        damaged = node_changed = False
        for event in events:
            if event.what == "link":
                is_dummy = event.link == DUMMY and (event.gone or event.up)
                damaged = damaged or is_dummy or (event.link == LOOPBACK and bool(routes))
            elif event.what == "route":
                damaged = damaged or (event.link_index == loopback and RouteKey(LOOPBACK, event.network) in routes)
            elif event.link_index == dummy:
                damaged = damaged or (
                    event.gone and AddressKey(DUMMY, event.address, 128 if ":" in event.address else 32) in addresses
                )
            else:
                node_changed = node_changed or not event.address.startswith("fe80:")
        if node_changed:
            self._follow.soon()
        if damaged and DUMMY in want.get("link", {}):
            self._mend.soon()

    def _mend_now(self) -> None:
        lost, self._events_lost = self._events_lost, False
        self._agent.full("events lost" if lost else KERNEL_EVENT)

    def _use_node(self) -> None:
        """Read the node's addresses again, once they have settled or at intervals while they change."""
        start = time.monotonic()
        try:
            self._agent.desired.use_node()
        except STOPPED as error:
            self._agent.log.error("the node's addresses cannot be read", reason=str(error))
        else:
            self._agent.changed()
        self._following = time.monotonic() - start

    def _rules_changed(self) -> None:
        """Rules changed: read the events of a moment together, since a program like firewalld makes many."""
        self._agent.loop.forget(self._rule_events)
        self._agent.loop.after(_CALM, self._read_rule_events)

    def _read_rule_events(self) -> None:
        """Compare the agent's rules if another process has changed some."""
        if self._rule_events is None or self._rule_events.fileno() < 0:
            return  # closed meanwhile
        self._agent.loop.watch(self._rule_events, self._rules_changed)
        if self._rule_events.rules_changed():
            self._look.soon()


def _number(link: str) -> int:
    """Return a link's index, -1 if the link does not exist."""
    try:
        return socket.if_nametoindex(link)
    except OSError:
        return -1
