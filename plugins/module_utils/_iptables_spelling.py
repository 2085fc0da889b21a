# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This module util is PRIVATE to the collection. It can change at any time, do not use it from outside.

"""How iptables-save spells rules that somebody wrote in another way: asked for in a scratch namespace, of the node's own iptables."""

from __future__ import annotations

import re
from typing import NamedTuple

from ._scratch import in_scratch
from .engine.errors import EngineError
from .engine.kernel import iptables
from .engine.model.iptables import ChainKey

_SETS = re.compile(r"--(?:match|add|del|map)-set\s+(\S+)")

_REPEATED = re.compile(r" # \d+\Z")  # how iptables.read tells rules of a built-in chain apart that are the same


class Rule(NamedTuple):
    """A rule to be spelled: where it stands in the task, its chain and its text."""

    place: str
    chain: ChainKey
    text: str


def spell(rules, chains):
    """Return the texts of rules as iptables-save prints them, in their order; as they are where that cannot be found out.

    Args:
        rules: the rules, those of one chain in their order.
        chains: every chain that they might jump to.

    Raises:
        EngineError: iptables does not take a rule; the text names its place and says why.
    """
    if not rules:
        return []
    sets = _headers({name for rule in rules for name in _SETS.findall(rule.text)})
    return in_scratch(lambda: _ask(rules, chains, sets)) or [rule.text for rule in rules]


def _headers(names):
    """Return the headers of sets that rules name; a rule without its set would be refused."""
    if not names:
        return {}
    from .engine.kernel import ipset

    return ipset.read(names, members=False)["set"]


def _ask(rules, chains, sets):
    if sets:
        from .engine.kernel.ipset.tool import restore

        restore([f"create {name} {header.text()}" for name, header in sets.items()])
    spelled = {}
    for family in sorted({rule.chain.family for rule in rules}):
        mine = [rule for rule in rules if rule.chain.family == family]
        _feed(family, mine, chains)
        found = iptables.read((family,))
        built_in = {}
        for key in sorted(found["jump"], key=found["jump"].get):
            built_in.setdefault(ChainKey(*key[:3]), []).append(key.rule)
        for chain, texts in [*found["chain"].items(), *built_in.items()]:
            for rule, text in zip([rule for rule in mine if rule.chain == chain], texts):
                spelled[rule] = _REPEATED.sub("", text)
    return [spelled.get(rule, rule.text) for rule in rules]


def _feed(family, rules, chains):
    from .engine.kernel.iptables.tool import restore
    from .engine.kernel.iptables.words import explain

    lines = []
    for table in sorted({rule.chain.table for rule in rules}):
        lines.append((f"*{table}", None))
        lines += [(f":{key.chain} - [0:0]", None) for key in chains if key[:2] == (family, table)]
        lines += [(f"-A {rule.chain.chain} {rule.text}".rstrip(), rule) for rule in rules if rule.chain.table == table]
        lines.append(("COMMIT", None))
    refused = restore(family, [text for text, _rule in lines])
    if refused is None:
        return
    text, rule = lines[refused.line - 1] if 0 < refused.line <= len(lines) else ("", None)
    if rule is None:
        before = [other for _text, other in lines[: refused.line] if other is not None]
        table = before[-1].chain.table if before else rules[0].chain.table
        raise EngineError(f"IPv{family} {table}: {explain(family, table, text, refused.text)}")
    raise EngineError(f"{rule.place} in IPv{family} {rule.chain.table}: {explain(family, rule.chain.table, text, refused.text)}")
