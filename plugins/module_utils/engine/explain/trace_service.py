# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Service of a rule that a packet matched: its set has an element for the Service's address and port."""

from __future__ import annotations

import re

from ..model.nft_trace import Headers
from ..model.nftables import ChainKey, ElementKey, Lookup, Rule, SetKey
from .faults.case import Case
from .flow import Decision

_MATCH_SET = re.compile(r"(?<!! )--match-set (\S+) ")


def service_of(case: Case, rule: Decision, headers: Headers | None) -> str:
    """Return the flow's Service if a matched rule looked up its address and port; "" for every other rule."""
    flow = case.flow
    if case.facts is None or headers is None or (headers.destination, headers.port) != (flow.destination, flow.port):
        return ""
    key, _number, text = rule.key
    is_its = _in_nftables(case, key, text, headers) if rule.kind == "nft_rule" else _in_iptables(case, text)
    return str(case.facts) if is_its else ""


def _in_nftables(case: Case, chain: ChainKey, rule: Rule, headers: Headers) -> bool:
    family = "ip" if case.flow.family == 4 else "ip6"
    values = {
        f"{family} saddr": headers.source,
        f"{family} daddr": headers.destination,
        "meta l4proto": headers.protocol,
        "th dport": str(headers.port),
    }
    elements = case.view.items.get("nft_element", {})
    for statement in rule.statements:
        if isinstance(statement, Lookup) and not statement.negated and "th dport" in statement.fields:
            fields = tuple(values.get(field, "") for field in statement.fields)
            if ElementKey(SetKey(chain.table, statement.set), fields) in elements:
                return True
    return False


def _in_iptables(case: Case, text: str) -> bool:
    flow = case.flow
    members = (f"{flow.destination},{flow.protocol}:{flow.port}", str(flow.port))
    names = _MATCH_SET.findall(text)
    return any(case.view.has_member(name, member) for name in names for member in members)
