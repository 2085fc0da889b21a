# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Order of a service proxy's steps by their meaning, so that each new connection is treated as before or as after.

The table of :mod:`..plan.order` knows kinds only. Here, four kinds of steps get another place:

- A rule on a set that loses its members stays until the virtual servers that need it are gone. A chain that gets other
  rules at the same time changes twice.
- Where the translation or the source ranges of a virtual server change, its leaving real servers leave before, and new
  ones come after: a real server of another node that sees the client's own address may answer past this node.
- The source ranges of a load balancer are complete before the member that makes them count, and as long as it is there.

``docs/explanation/hitless.md`` describes what is left; ``tests/unit/engine/proxy/test_hitless.py`` walks every state.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from ..desired import sets
from ..desired.nft_sets import NAMED_SETS, member_of
from ..desired.nft_words import chain_name
from ..desired.rules import CHAINS, LOCALHOST, OUT_FILTER
from ..model import ReadState
from ..model.ipvs import VirtualServerKey
from ..model.nftables import Compare, Lookup, Rule
from ..plan import Step
from ..plan.order import ordered, place

_KINDS = frozenset(("member", "nft_element"))
_BITMAPS = {
    sets.set_name(fam, names[protocol]): protocol
    for fam in (4, 6)
    for names in (sets.NODE_PORT, sets.NODE_PORT_LOCAL)
    for protocol in ("tcp", "udp")
}
_BY_ADDRESS = (
    sets.CLUSTER_IP,
    sets.EXTERNAL_IP,
    sets.EXTERNAL_IP_LOCAL,
    sets.LOAD_BALANCER,
    sets.LOAD_BALANCER_LOCAL,
    sets.NODE_PORT["sctp"],
    sets.NODE_PORT_LOCAL["sctp"],
)
_TRANSLATING = frozenset(sets.set_name(fam, name) for fam in (4, 6) for name in _BY_ADDRESS)
_FIREWALLS = frozenset(sets.set_name(fam, sets.LOAD_BALANCER_FW) for fam in (4, 6))
_RANGES = _FIREWALLS | {
    sets.set_name(fam, name)
    for fam in (4, 6)
    for name in (sets.LOAD_BALANCER_SOURCE_CIDR, sets.LOAD_BALANCER_SOURCE_IP)
}
# Sets whose members keep the client's address although another set has them, too.
_KEEPING = frozenset(
    sets.set_name(fam, name) for fam in (4, 6) for name in (sets.LOAD_BALANCER_LOCAL, *sets.NODE_PORT_LOCAL.values())
)
_NAMES = {named.key: name for name, named in NAMED_SETS.items()}
_OF_SERVICES = frozenset((OUT_FILTER, LOCALHOST, chain_name("filter", OUT_FILTER), chain_name("nat", LOCALHOST)))
_OF_NAT = frozenset(
    (*CHAINS["nat"], LOCALHOST, *(chain_name("nat", name) for name in CHAINS["nat"]), chain_name("nat", LOCALHOST))
)
_VIRTUAL = re.compile(r"--vaddr (\S+) --vport (\d+)")
_MATCHED = re.compile(r"--match-set (\S+)")
_Mark = tuple[str, str, int, int]  # protocol, address ("" for every address of the node), port, family


def hitless(steps: Sequence[Step], have: ReadState) -> list[Step]:
    """Return ordered steps in an order that no new connection notices; ``have`` are the present items."""
    moved: dict[Step, float] = {}
    steps_in_order: list[Step] = []
    whole = {step.key for step in steps if step.kind in ("set", "nft_set") and step.verb != "change"}
    inside = [step for step in steps if step.kind in _KINDS and step.key.set not in whole]
    losing, getting = (
        {name for step in inside if (step.after is None) is goes and (name := _ip_set(step))} for goes in (True, False)
    )
    emptied, filled = losing - getting, getting - losing  # if a set does both, only settings change its rules
    gone = {step.key for step in steps if step.kind == "virtual_server" and step.after is None}
    reconfigured: set[int] = set()
    for step in steps:
        if step.kind in ("chain", "nft_chain") and step.verb == "change":
            change = _ChainChange(step)
            steps_in_order.extend(change.twice(emptied, gone, moved))
            if change.is_of_settings(emptied, filled):
                reconfigured.add(change.family)
        else:
            steps_in_order.append(step)
    _sets_in_order(inside, moved)
    _translations(steps_in_order, inside, have, reconfigured, _switched(steps), moved)
    return ordered(steps_in_order, moved) if moved else steps_in_order


def _ip_set(step: Step) -> str:
    """Return the IP set that gains or loses a member, or whose counterpart does; "" if there is none."""
    if step.kind == "nft_element":
        return _NAMES.get(step.key.set, "")
    return str(step.key.set) if step.kind == "member" else ""


def _switched(steps: Sequence[Step]) -> set[int]:
    """Return the families whose rules move from one rules back end to the other."""
    of_nftables = {_family(step): step.after is None for step in steps if step.kind == "nft_table"}
    return {
        step.key.family
        for step in steps
        if step.kind == "chain" and of_nftables.get(step.key.family) is (step.before is None)
    }


def _family(step: Step) -> int:
    """Return the address family of a step about tables or chains of nftables."""
    table = step.key if step.kind == "nft_table" else step.key.table
    return 6 if table.family == "ip6" else 4


# chains


class _ChainChange:
    """Change of a chain: its rules before and after, in either back end."""

    def __init__(self, step: Step) -> None:
        self.step = step
        self.is_nft = step.kind == "nft_chain"
        self.before, self.after = (step.before.rules, step.after.rules) if self.is_nft else (step.before, step.after)
        self.name = step.key.name if self.is_nft else step.key.chain
        self.family = _family(step) if self.is_nft else step.key.family
        self.leaving = [rule for rule in self.before if rule not in self.after]
        self.coming = [rule for rule in self.after if rule not in self.before]

    def twice(self, emptied: set[str], gone: set[VirtualServerKey], moved: dict[Step, float]) -> list[Step]:
        """Return the changes: rules that leave with their members or virtual server leave late, others change now."""
        late = self._late(emptied, gone)
        merged = _merged(self.before, self.after, late)
        step = self.step
        if not late or merged is None or (self.is_nft and step.before.hook != step.after.hook):
            return [step]
        between = step.after._replace(rules=merged) if self.is_nft else merged
        last = step._replace(before=between)
        moved[last] = place(step.kind, "delete") - 0.5
        return [last] if between == step.before else [step._replace(after=between), last]

    def is_of_settings(self, emptied: set[str], filled: set[str]) -> bool:
        """Tell whether it changes translations for another reason than that sets lose or get their members."""
        if self.name not in _OF_NAT or self.name in _OF_SERVICES:
            return False
        left, come = (
            {name for rule in rules for name in _sets(self.step, rule)} for rules in (self.leaving, self.coming)
        )
        reasons = [(rule, emptied - come) for rule in self.leaving] + [(rule, filled - left) for rule in self.coming]
        return any(not _sets(self.step, rule) & names for rule, names in reasons)

    def _late(self, emptied: set[str], gone: set[VirtualServerKey]) -> list[Any]:
        if self.name in _OF_SERVICES:
            left = {(key.address, str(key.port)) for key in gone}
            return [rule for rule in self.leaving if (virtual := _virtual(rule)) is None or virtual in left]
        renewed = {name for rule in self.coming for name in _sets(self.step, rule)}
        looked = [(rule, _sets(self.step, rule)) for rule in self.leaving]
        return [rule for rule, names in looked if names and names <= emptied and names.isdisjoint(renewed)]


def _merged(before: Sequence[Any], after: Sequence[Any], late: Sequence[Any]) -> tuple[Any, ...] | None:
    """Return ``after`` with the rules that leave late at their places; None if the common rules change their order."""
    common = [rule for rule in after if rule in before]
    if common != [rule for rule in before if rule in after]:
        return None
    merged: list[Any] = []
    rest = list(before)
    for rule in after:
        if rule in before:
            at = rest.index(rule)
            merged.extend(each for each in rest[:at] if each in late)
            rest = rest[at + 1 :]
        elif rest and rest[0] not in after:  # rules that leave go before the new ones in their place
            end = next((at for at, each in enumerate(rest) if each in after), len(rest))
            merged.extend(each for each in rest[:end] if each in late)
            rest = rest[end:]
        merged.append(rule)
    return (*merged, *(each for each in rest if each in late))


def _sets(step: Step, rule: Any) -> set[str]:
    """Return the IP sets that a rule looks up, by the names of iptables' back end."""
    if isinstance(rule, Rule):
        looked = (each for each in rule.statements if isinstance(each, Lookup))
        return {name for each in looked for key, name in _NAMES.items() if key == (step.key.table, each.set)}
    return set(_MATCHED.findall(rule))


def _virtual(rule: Any) -> tuple[str, str] | None:
    """Return address and port of the virtual server that a rule of OUT-FILTER names; None for other rules."""
    if isinstance(rule, Rule):
        compared = {each.field: each.value for each in rule.statements if isinstance(each, Compare)}
        address = next((value for field, value in compared.items() if re.match(r"ct original \w+ daddr", field)), "")
        return (address, compared.get("ct original proto-dst", "")) if address else None
    match = _VIRTUAL.search(rule)
    return (match[1], match[2]) if match else None


# members


def _sets_in_order(steps: Sequence[Step], moved: dict[Step, float]) -> None:
    """Let members that exempt come before those that they exempt from, and leave after them.

    Source ranges count when all are there, until the first one leaves. A transaction of nftables is one moment.
    """
    for step in steps:
        if step.kind == "member" and step.key.set in _FIREWALLS:
            moved[step] = place("jump", "change") + 0.5 if step.after is not None else place("jump", "delete") - 0.5
        elif step.kind == "member" and step.key.set in _KEEPING:
            moved[step] = place("member", "create") - 0.5 if step.after is not None else place("member", "delete") + 0.5


def _translations(
    steps: Sequence[Step],
    members: Sequence[Step],
    have: ReadState,
    reconfigured: set[int],
    switched: set[int],
    moved: dict[Step, float],
) -> None:
    """Change translation and source ranges of a virtual server after real servers left it, and before others come.

    ``reconfigured`` are the families whose settings change, ``switched`` those that get the other rules back end.
    """
    marks = {mark for step in members if (mark := _mark(step) or _mark(step, _RANGES))}
    if not marks and not reconfigured and not switched:
        return
    replaced = {step.key for step in steps if step.kind == "virtual_server" and step.verb != "change"}
    real_servers = [step for step in steps if step.kind == "real_server"]
    leaving: dict[VirtualServerKey, list[Step]] = {}
    for step in real_servers:
        if _leaves(step):
            leaving.setdefault(step.key.server, []).append(step)
    first = {server for server in leaving if server.family in reconfigured | switched}
    first |= {server for server in leaving if server not in replaced and marks & _marks(server)}
    for server in first:
        moved.update((step, place("set", "create") - 0.5) for step in leaving[server])
    existing = {key for key in have.get("virtual_server", {}) if key not in replaced}
    wanted = {mark for server in existing for mark in _marks(server)}
    for step in real_servers:  # of a switch, they come after the rules of the old back end, which translate until then
        if _comes(step) and step.key.server.family in switched and step.key.server in existing:
            moved[step] = place("set", "delete") + 0.5
    for step in members:
        is_gone = step.after is None
        if _mark(step) not in wanted and not (is_gone and _mark(step, _RANGES) in wanted):
            continue
        if step.kind == "member":
            moved[step] = place("jump", "change") + _turn(step)
        elif is_gone:
            moved[step] = place("nft_element", "change") + 0.5


def _turn(step: Step) -> float:
    """Order the members of virtual servers that stay: source ranges, and then as :func:`_sets_in_order` does."""
    name = step.key.set
    if name in _RANGES:
        return 0.52 if name in _FIREWALLS else 0.54  # new ones count since 0.5
    if step.after is not None:
        return 0.6 if name in _KEEPING else 0.7
    return 0.9 if name in _KEEPING else 0.8


def _leaves(step: Step) -> bool:
    """Tell whether a real server gets no new connections after a step."""
    return bool(step.before and step.before.weight and not (step.after and step.after.weight))


def _comes(step: Step) -> bool:
    """Tell whether a real server gets new connections from a step on."""
    return bool(step.after and step.after.weight and not (step.before and step.before.weight))


def _mark(step: Step, names: frozenset[str] = _TRANSLATING) -> _Mark | None:
    """Return protocol, address, port and family of the virtual servers whose translation a step changes.

    ``names`` are the sets of addresses and ports that count.
    """
    name = _ip_set(step) if step.verb != "change" else ""
    if name not in _BITMAPS and name not in names:
        return None
    key: Any = step.key if step.kind == "member" else member_of(step.key)
    fam = 6 if name.startswith("KUBE-6-") else 4
    if name in _BITMAPS:
        return _BITMAPS[name], "", int(key.member), fam
    address, entry = key.member.split(",")[:2]
    protocol, _colon, port = entry.partition(":")
    return protocol, address, int(port), fam


def _marks(server: VirtualServerKey) -> set[_Mark]:
    protocol, address, port, fam = server
    return {(protocol, address, port, fam), (protocol, "", port, fam)}
