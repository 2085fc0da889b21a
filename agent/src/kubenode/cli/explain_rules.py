# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Rules that the events of a trace name: their numbers and texts, and links by index."""

from __future__ import annotations

import re
import socket
from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import TYPE_CHECKING

from ..engine.desired.nft_sets import TABLES
from ..engine.errors import EngineError
from ..engine.explain.flow import Decision
from ..engine.explain.trace import KnownRule, RuleId, Ruleset
from ..engine.model.iptables import ChainKey as IptablesChainKey
from ..engine.model.nft_trace import RULE, TABLE_PREFIX, TraceEvent
from ..engine.model.nftables import ChainKey, TableKey

if TYPE_CHECKING:
    from ..engine.explain.faults import Case
    from ..engine.kernel.nftables.handles import Handled, TableRules

_WITH_HANDLE = re.compile(r"^\s+(.+) # handle (\d+)$", re.MULTILINE)
_VERSIONS = {"ip": 4, "ip6": 6}
_IPTABLES = ("filter", "nat", "mangle", "raw", "security")
_MOST_CHAINS = 60  # of which nft(8) lists texts: one process for each chain of another program


def ruleset(case: Case, events: Iterable[TraceEvent]) -> Ruleset:
    """Return all that the events name. What cannot be read is left out: its events then have handles only."""
    seen = [event for event in events if not event.table.startswith(TABLE_PREFIX)]
    tables = _read(dict.fromkeys(TableKey(event.family, event.table) for event in seen))
    chains = dict.fromkeys(
        ChainKey(TableKey(event.family, event.table), event.chain)
        for event in seen
        if event.kind == RULE and event.handle
    )
    hooks = {(*table, name): hook for table, read in tables.items() for name, hook in read.hooks.items()}
    is_saved = any(table.name in _IPTABLES for table in tables) and _is_iptables_nft()
    rules: dict[RuleId, KnownRule] = {}
    for index, chain in enumerate(chains):
        listed = tables[chain.table].rules.get(chain.name, []) if chain.table in tables else []
        saved = _saved(case, chain) if is_saved else ()
        if saved and len(saved) == len(listed):
            rules.update(_of_iptables(chain, listed, saved))
        else:
            rules.update(_known(chain, listed, index < _MOST_CHAINS))
    return Ruleset(rules, hooks, dict(socket.if_nameindex()))


def _read(tables: Iterable[TableKey]) -> dict[TableKey, TableRules]:
    from ..engine.kernel.nftables.handles import read_handles

    with suppress(EngineError):
        return read_handles(tables)
    return {}


def _is_iptables_nft() -> bool:
    """Tell whether the rules that iptables-save has listed are in nftables."""
    from ..engine.kernel.iptables import version

    with suppress(EngineError):
        return version().backend == "nft"
    return False


def _saved(case: Case, chain: ChainKey) -> tuple[str, ...]:
    """Return the rules of a chain as iptables-save has listed them."""
    return case.view.rules.get(_iptables_key(chain), ()) if chain.table.name in _IPTABLES else ()


def _iptables_key(chain: ChainKey) -> IptablesChainKey:
    return IptablesChainKey(_VERSIONS.get(chain.table.family, 0), chain.table.name, chain.name)


def _of_iptables(chain: ChainKey, rules: list[Handled], saved: tuple[str, ...]) -> Iterator[tuple[RuleId, KnownRule]]:
    for number, (each, text) in enumerate(zip(rules, saved), 1):
        evidence = Decision("", "", "rule", (_iptables_key(chain), number, text))
        yield (*chain.table, chain.name, each.handle), KnownRule(number, text, evidence)


def _known(chain: ChainKey, rules: list[Handled], with_texts: bool) -> Iterator[tuple[RuleId, KnownRule]]:
    """Yield the rules of one chain; ``with_texts``: ask nft(8) for the texts of another program's rules."""
    ours = TABLES.get(_VERSIONS.get(chain.table.family, 0))
    texts = _texts(chain) if with_texts and chain.table != ours else {}
    for number, each in enumerate(rules, 1):
        text = texts.get(each.handle, "")
        evidence = None
        if each.rule is not None:
            evidence = Decision("", "", "nft_rule", (chain, number, each.rule))
            text = text or _rendered(evidence)
        yield (*chain.table, chain.name, each.handle), KnownRule(number, text, evidence)


def _rendered(evidence: Decision) -> str:
    from ..engine.render.nftables import rule_text

    with suppress(EngineError):
        return rule_text(evidence.key[2])
    return "statements of another program"


def _texts(chain: ChainKey) -> dict[int, str]:
    """Return the texts of another program's rules by handle, as nft(8) lists them; empty without it."""
    from ..engine.kernel.command import is_installed, run

    if not is_installed("nft"):
        return {}
    with suppress(EngineError):
        listed = run(["nft", "--handle", "list", "chain", *chain.table, chain.name])
        return {int(handle): text for text, handle in _WITH_HANDLE.findall(listed.output)}
    return {}
