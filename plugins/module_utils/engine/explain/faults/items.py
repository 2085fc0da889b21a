# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Faults of the agent's own items in the kernel: an item is missing, or has another value than desired.

Items of the flow's own virtual server count at once. Chains, jumps and sets serve many Services: such a difference
counts if its repair alone would bring the connection onto its desired path.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from ...desired.nft_sets import TABLES, fields_of, named_set
from ...model import State
from ...model.ipset import MemberKey
from ...model.iptables import ChainKey
from ...model.link import AddressKey, RouteKey
from ...model.nftables import ElementKey
from ..view import NodeView, jumps_in, rules_of
from .case import SYNC, Case, Fault


class Difference(NamedTuple):
    """One item that differs: its kind and key, a sentence, and the view in which it is repaired (None: not made)."""

    kind: str
    key: Any
    sentence: str
    repaired: NodeView | None = None


def binding(case: Case) -> Fault | None:
    """Find a virtual address that does not lead to IPVS: no address on kube-ipvs0, no local route."""
    facts = case.facts
    if facts is None or facts.claim is None or case.want is None:
        return None
    key = facts.claim.address
    if isinstance(key, AddressKey) and key not in case.view.items.get("address", {}):
        return _fault("address-missing", f"the address {key} is missing", facts, "address", key)
    if isinstance(key, RouteKey) and key not in case.view.items.get("route", {}):
        return _fault("route-missing", f"the local route {key} is missing", facts, "route", key)
    if key is None:
        for net in case.want.get("route", {}):
            if net not in case.view.items.get("route", {}) and not case.view.is_local(case.flow.destination):
                return _fault("route-missing", f"the local route {net} is missing", facts, "route", net)
    if not case.view.is_local(case.flow.destination) and case.flow.link:
        sentence = f"the kernel has no local route for {case.flow.destination}, although {key} is there"
        return _fault("local-route-missing", sentence, facts, "route", case.flow.destination)
    return None


def _fault(name: str, sentence: str, facts: object, kind: str, key: Any) -> Fault:
    return Fault(name, f"{sentence} ({facts})", SYNC, kind, key)


def virtual_server(case: Case) -> Fault | None:
    """Find a virtual server that is missing, or has other settings than desired."""
    want = _wanted_server(case)
    if want is None:
        return None
    have = case.view.server(case.flow.key)
    if have is None:
        return _fault(
            "server-missing",
            f"the virtual server {case.flow.key} is missing",
            case.facts,
            "virtual_server",
            case.flow.key,
        )
    if have != want:
        names = [name for name in want._fields if getattr(have, name) != getattr(want, name)]
        words = ", ".join(f"{name} {getattr(have, name)} instead of {getattr(want, name)}" for name in names)
        sentence = f"the virtual server {case.flow.key} has {words}"
        return _fault("server-differs", sentence, case.facts, "virtual_server", case.flow.key)
    return None


def _wanted_server(case: Case) -> Any:
    return None if case.want is None else case.want["virtual_server"].get(case.flow.key)


def real_servers(case: Case) -> Fault | None:
    """Find real servers that are missing, that differ, or that nobody wants."""
    if case.want is None or _wanted_server(case) is None or case.view.server(case.flow.key) is None:
        return None
    want = {key: value for key, value in case.want["real_server"].items() if key.server == case.flow.key}
    have = case.view.real_servers(case.flow.key)
    for key, value in want.items():
        if key not in have:
            return _fault("real-server-missing", f"the real server {key} is missing", case.facts, "real_server", key)
        if have[key].weight != value.weight:
            sentence = f"the real server {key} has weight {have[key].weight} instead of {value.weight}"
            return _fault("weight-differs", sentence, case.facts, "real_server", key)
        if have[key].forward != value.forward:
            sentence = f"the real server {key} has the forwarding method {have[key].forward} instead of {value.forward}"
            return _fault("forward-differs", sentence, case.facts, "real_server", key)
        if have[key] != value:
            sentence = f"the real server {key} has thresholds or tunnel settings that are not desired"
            return _fault("real-server-differs", sentence, case.facts, "real_server", key)
    for key, value in have.items():
        if key not in want and value.weight:
            sentence = f"the real server {key} is not desired, and gets connections"
            return _fault("real-server-foreign", sentence, case.facts, "real_server", key)
    return None


def members(case: Case) -> Fault | None:
    """Find a set, or a member of the virtual server's sets, that is missing."""
    facts = case.facts
    if facts is None or facts.claim is None or case.want is None:
        return None
    for key in (*facts.claim.members, *_hairpin(case)):
        if "nft_set" in case.want:
            fault = _element(case, key)
        elif key.set in case.want.get("set", {}) and not case.view.set_type(key.set):
            fault = _fault(
                "set-missing", f"no rule of this node uses the set {key.set}, or it is missing", facts, "set", key.set
            )
            fault = fault if not _unused(case, key.set) else None
        elif case.view.has_member(*key):
            fault = None
        else:
            fault = _fault(
                "member-missing", f"the member {key.member} of set {key.set} is missing", facts, "member", key
            )
        if fault is not None:
            return fault
    return None


def _unused(case: Case, name: str) -> bool:
    """Tell whether no desired rule names a set, so that it is not read."""
    return not any(f" {name} " in text for texts in rules_of(case.want or {}).values() for text in texts)


def _hairpin(case: Case) -> Iterator[MemberKey]:
    """Yield the members for connections of an endpoint to itself."""
    if case.facts is None or case.facts.claim is None or case.want is None or case.cluster is None:
        return
    name = "KUBE-LOOP-BACK" if case.flow.family == 4 else "KUBE-6-LOOP-BACK"
    wanted = case.cluster.state()["member"]
    for address, port, _weight in case.facts.claim.targets:
        key = MemberKey(name, f"{address},{case.flow.protocol}:{port},{address}")
        if key in wanted and case.flow.source == address:
            yield key


def _element(case: Case, member: MemberKey) -> Fault | None:
    named = named_set(member.set)
    key = ElementKey(named.key, fields_of(member.member))
    if key not in (case.want or {})["nft_element"] or key in case.view.items.get("nft_element", {}):
        return None
    if named.key not in case.view.items.get("nft_set", {}):
        if named.key.table not in case.view.items.get("nft_table", {}):
            sentence = f"the table {named.key.table} of nftables is missing"
            return _fault("table-missing", sentence, case.facts, "nft_table", named.key.table)
        return _fault("set-missing", f"the set {named.key} of nftables is missing", case.facts, "nft_set", named.key)
    return _fault("member-missing", f"the element {key} is missing", case.facts, "nft_element", key)


def rules(case: Case) -> Fault | None:
    """Find the chain or jump whose repair alone brings the connection onto its desired path; else all of them."""
    if case.want is None or case.ideal is None or case.is_as_wanted:
        return None
    found = [*_rule_differences(case), *_nft_differences(case)]
    for difference in found:
        if difference.repaired is not None and case.helps(difference.repaired):
            return Fault("rules-differ", difference.sentence, SYNC, difference.kind, difference.key)
    if found and case.helps(_all_repaired(case)):
        more = f", and {len(found) - 1} more items differ" if len(found) > 1 else ""
        return Fault("rules-differ", found[0].sentence + more, SYNC, found[0].kind, found[0].key)
    return None


def _rule_differences(case: Case) -> Iterator[Difference]:
    view, want, fam = case.view, case.want or {}, case.flow.family
    jumps = [key for key in want.get("jump", {}) if key.family == fam]
    present = jumps_in(view.rules, jumps)
    for jump in sorted(jumps, key=lambda key: want["jump"][key].order):
        if jump not in present:
            chain = ChainKey(jump.family, jump.table, jump.chain)
            changed = {**view.rules, chain: (jump.rule, *view.rules.get(chain, ()))}
            sentence = f"the rule in chain {jump.chain} of table {jump.table} is missing: {jump.rule}"
            yield Difference("jump", jump, sentence, view.replaced(rules=changed))
    for key, texts in want.get("chain", {}).items():
        if key.family != fam or view.rules.get(key) == texts:
            continue
        if key not in view.rules:
            sentence = f"the chain {key.chain} of table {key.table} is missing"
        else:
            lacking = [text for text in texts if text not in view.rules[key]]
            extra = [text for text in view.rules[key] if text not in texts]
            which = (
                f"lacks the rule: {lacking[0]}"
                if lacking
                else f"has a foreign rule: {extra[0]}"
                if extra
                else "has another order"
            )
            sentence = f"the chain {key.chain} of table {key.table} {which}"
        yield Difference("chain", key, sentence, view.replaced(rules={**view.rules, key: texts}))


def _nft_differences(case: Case) -> Iterator[Difference]:
    view, want = case.view, case.want or {}
    table = TABLES[case.flow.family]
    if "nft_chain" not in want:
        return
    have = view.nft_chains()
    if table not in view.items.get("nft_table", {}):
        yield Difference("nft_table", table, f"the table {table} of nftables is missing", _all_repaired(case))
        return
    for key, chain in want["nft_chain"].items():
        if key.table != table or have.get(key) == chain:
            continue
        if key not in have:
            sentence = f"the chain {key} of nftables is missing"
        else:
            lacking = sum(rule not in have[key].rules for rule in chain.rules)
            extra = sum(rule not in chain.rules for rule in have[key].rules)
            sentence = f"the chain {key} of nftables lacks {lacking} of its rules and has {extra} foreign ones"
        items = {**view.items, "nft_chain": {**have, key: chain}}
        yield Difference("nft_chain", key, sentence, view.replaced(items=items))


def _all_repaired(case: Case) -> NodeView:
    """Return the view with all desired rules, sets and members, beside those of other programs."""
    view, want = case.view, case.want or {}
    items: State = {kind: dict(its) for kind, its in view.items.items()}
    for kind in ("set", "member", "nft_table", "nft_set", "nft_element", "nft_chain"):
        items.setdefault(kind, {}).update(want.get(kind, {}))
    rules = dict(view.rules)
    for key, texts in rules_of(want).items():
        kept = [text for text in rules.get(key, ()) if text not in texts] if key not in want.get("chain", {}) else []
        rules[key] = (*texts, *kept)
    return view.replaced(items=items, rules=rules)


CHECKS = (binding, virtual_server, real_servers, members, rules)
