# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""nftables reports every change of the rules by another process, whatever its size.

The tests run on this machine's kernel, which has nftables, in a namespace of its own.
"""

from __future__ import annotations

import select
from collections.abc import Iterator

import pytest
from support.processes.namespace import fresh, sh

from kubenode.engine.kernel.nfnetlink.monitor import RuleEvents
from kubenode.engine.kernel.nftables.conversation import Conversation
from kubenode.engine.model.nftables import ChainKey, NftChain, TableKey
from kubenode.engine.model.step import Step


@pytest.fixture
def events() -> Iterator[RuleEvents]:
    fresh()
    subscribed = RuleEvents()
    yield subscribed
    subscribed.close()


def told(events: RuleEvents) -> bool:
    return bool(select.select([events], [], [], 0)[0])


@pytest.mark.parametrize("tool", ["iptables-nft", "ip6tables-nft"])
def test_every_rule_change_sends_one_event(events: RuleEvents, tool: str) -> None:
    many = "\n".join(f"-A OURS -p tcp --dport {port} -j ACCEPT" for port in range(1, 2000))
    for words, text in (
        (("-N", "OURS"), None),
        (("-A", "OURS", "-j", "DROP"), None),
        (("-restore", "--noflush"), f"*filter\n{many}\nCOMMIT\n"),
        (("-F", "OURS"), None),
        (("-X", "OURS"), None),
    ):
        assert not told(events)
        sh(*([tool + words[0], *words[1:]] if text else [tool, *words]), text=text)
        assert told(events), words
        assert events.rules_changed()


def test_own_transactions_send_no_event(events: RuleEvents) -> None:
    conversation = Conversation()
    table, chain = TableKey("ip", "kubenode"), ChainKey(TableKey("ip", "kubenode"), "services")
    for step in (Step("nft_table", table, None, 0), Step("nft_chain", chain, None, NftChain(None, ()))):
        assert conversation.apply([step], False, {}).done == [step]
        assert not told(events)
    sh("nft", "add rule ip kubenode services accept")
    assert told(events)
    assert events.rules_changed()
    conversation.close()  # as after an error: the next socket has the same port
    assert conversation.apply([Step("nft_table", table, 0, None)], False, {}).done
    assert not told(events)


def test_second_conversation_works_and_is_heard(events: RuleEvents) -> None:
    first, second = Conversation(), Conversation()
    tables = [Step("nft_table", TableKey(family, "kubenode"), None, 0) for family in ("ip", "ip6")]
    assert first.apply(tables[:1], False, {}).done == tables[:1]
    assert second.apply(tables[1:], False, {}).done == tables[1:]
    assert events.rules_changed()


def test_reading_rules_sends_no_event(events: RuleEvents) -> None:
    sh("iptables-nft", "-t", "nat", "-N", "OURS")
    assert events.rules_changed()
    sh("iptables-nft-save")
    assert not told(events)


def test_changes_of_other_tables_send_no_event(events: RuleEvents) -> None:
    for words in (("-N", "THEIRS"), ("-A", "THEIRS", "-j", "ACCEPT"), ("-F", "THEIRS"), ("-X", "THEIRS")):
        sh("iptables-nft", "-t", "mangle", *words)
        assert told(events)
        assert not events.rules_changed()
