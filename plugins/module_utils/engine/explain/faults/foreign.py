# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Faults that other programs cause: their rules, their virtual servers, a second service proxy."""

from __future__ import annotations

from ...desired.nft_sets import TABLES
from ...model.iptables import ChainKey
from ..flow import DELIVERED, Decision
from ..view import NodeView
from .case import Case, Fault, decisions, is_ours

_AGENT = "agent"


def foreign_server(case: Case) -> Fault | None:
    """Find a virtual server at the flow's address and port that is not the agent's."""
    key = case.flow.key
    if case.view.server(key) is None or case.owners is None:
        return None
    owner = case.owners.get(key, "")
    if owner == _AGENT:
        return None
    if case.want is not None and key not in case.want["virtual_server"]:
        if case.path.verdict == DELIVERED and case.path.arrives:
            return None
        whose = f"of owner {owner}" if owner else "without an owner"
        sentence = f"the virtual server {key} is {whose}, and no Service of this node: {case.path.reason}"
        return Fault("server-foreign", sentence, "ask its owner, or remove it", "virtual_server", key)
    if owner:
        sentence = f"another owner ({owner}) holds the virtual server {key}, which {case.facts} wants"
        return Fault("server-foreign", sentence, "remove it with a task of that owner", "virtual_server", key)
    sentence = f"another program made the virtual server {key}, which {case.facts} wants: it is not in the ledger"
    return Fault("server-foreign", sentence, "remove it, or run: kubenode adopt", "virtual_server", key)


def other_server(case: Case) -> Fault | None:
    """Find a virtual server of a firewall mark, or of all ports, that takes the flow away."""
    server = case.path.server
    if server is None or server == case.flow.key:
        return None
    marks = [
        decision
        for decision in decisions(case.path)
        if "sets the mark" in decision.text and not is_ours(case, decision)
    ]
    if case.path.flow.destination == server.address and server.port not in (0, case.flow.port):
        return None
    because = f"; {marks[-1].text}" if marks else ""
    sentence = f"the virtual server {server} takes the connection instead of {case.flow.key}{because}"
    return Fault("server-other", sentence, "remove it or its rule", "virtual_server", server)


def foreign_rule(case: Case) -> Fault | None:
    """Find the rule of another program that stops the connection, redirects it, or changes its way."""
    if case.path.arrives and (case.ideal is None or case.is_as_wanted):
        return None
    rules = [decision for decision in decisions(case.path) if _is_foreign(case, decision)]
    for decision in rules:
        if _stops(case, decision):
            return _fault(decision)
    for decision in rules:
        if case.ideal is not None and case.helps(_without(case.view, decision)):
            return _fault(decision)
    return None


def _is_foreign(case: Case, decision: Decision) -> bool:
    if decision.kind in ("chain", "nft_chain"):
        return True  # a policy: the agent sets none
    if decision.kind not in ("rule", "nft_rule") or case.want is None:
        return False
    return not is_ours(case, decision) and not _is_old(case, decision)


def _is_old(case: Case, decision: Decision) -> bool:
    """Tell whether a rule stands in one of the agent's own chains, which the agent's items explain better."""
    key = decision.key[0]
    if decision.kind == "nft_rule":
        return bool(key.table == TABLES[case.flow.family])
    return isinstance(key, ChainKey) and key in (case.want or {}).get("chain", {})


def _stops(case: Case, decision: Decision) -> bool:
    """Tell whether a decision ends the connection: the last one, or one that a target's problem names."""
    named = [case.path.reason, *(target.problem for target in case.path.targets)]
    return any(decision.text in text for text in named) and not any(
        word in decision.text for word in (" leads to ", " ends the chain")
    )


def _fault(decision: Decision) -> Fault:
    kind = "foreign-policy" if decision.kind in ("chain", "nft_chain") else "foreign-rule"
    remedy = "remove the rule, or accept this traffic before it"
    if kind == "foreign-policy":
        remedy = "accept this traffic in the chain, or give it the policy accept"
    where = "a rule of another program: " if kind == "foreign-rule" else ""
    return Fault(kind, f"{where}{decision.text}", remedy, decision.kind, decision.key)


def _without(view: NodeView, decision: Decision) -> NodeView:
    """Return the view without a rule."""
    if decision.kind == "rule":
        key, number, _text = decision.key
        texts = view.rules[key]
        return view.replaced(rules={**view.rules, key: (*texts[: number - 1], *texts[number:])})
    if decision.kind == "nft_rule":
        key, number, _rule = decision.key
        chains = view.nft_chains()
        chain = chains[key]._replace(rules=(*chains[key].rules[: number - 1], *chains[key].rules[number:]))
        return view.replaced(items={**view.items, "nft_chain": {**chains, key: chain}})
    return view


def rule_in_our_chain(case: Case) -> Fault | None:
    """Find another program's rule in one of the agent's chains that stops or changes the connection."""
    if case.want is None or (case.path.arrives and case.is_as_wanted):
        return None
    for decision in decisions(case.path):
        if decision.kind not in ("rule", "nft_rule") or is_ours(case, decision) or not _is_old(case, decision):
            continue
        if case.helps(_without(case.view, decision)):
            remedy = "run: kubenode status --sync, and find the program that adds it"
            return _fault(decision)._replace(remedy=remedy)
    return None


def other_proxy(case: Case) -> Fault | None:
    """Find a second service proxy on this node."""
    if "kube-proxy" not in case.view.host.processes or case.cluster is None:
        return None
    sentence = "kube-proxy runs on this node, too: it removes every virtual server that it does not know"
    return Fault("two-proxies", sentence, "stop kube-proxy on nodes with the agent (docs/how-to/migrate.md)", "process")


SERVERS = (foreign_server, other_server)
RULES = (foreign_rule, rule_in_our_chain)
