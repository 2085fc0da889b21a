# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tables of nftables on this machine's kernel, in a namespace of its own; the tool ``nft`` is the second opinion."""

from __future__ import annotations

import json

import pytest
from hypothesis import HealthCheck, given, settings
from support import properties  # noqa: F401
from support.nftables import rules
from support.processes.namespace import fresh, sh
from support.tables.nft_example import (
    CLUSTER_IPS,
    KINDS,
    NETWORKS,
    OTHERS,
    OWNED,
    SERVICES,
    SOURCES,
    STATE,
    TABLE,
    TABLE6,
    TCP,
    TEXT,
    VIPS,
    applied,
    changed,
    elements,
    listed,
)

from kubenode.engine.kernel import nftables
from kubenode.engine.model import State
from kubenode.engine.model.nftables import (
    ChainKey,
    Compare,
    DestinationNat,
    ElementKey,
    Foreign,
    Hook,
    Lookup,
    Masquerade,
    NftChain,
    NftSet,
    Rule,
    SetKey,
    TableKey,
    Verdict,
)
from kubenode.engine.model.step import Step
from kubenode.engine.plan import plan

FOREIGN = (
    "table ip theirs { set s { type ether_addr; }; chain c { counter packets 1 bytes 2; tcp dport { 1, 2 } accept; }; }"
)


@pytest.fixture(autouse=True)
def namespace() -> None:
    fresh()


def test_written_state_is_read_and_listed_as_meant() -> None:
    assert applied(STATE) == STATE
    assert listed() == TEXT
    rows = json.loads(sh("nft", "-j", "list", "ruleset"))["nftables"]
    assert sum("rule" in row for row in rows) == sum(len(chain.rules) for chain in STATE["nft_chain"].values())


def test_text_for_nft_is_read_as_the_same_state() -> None:
    sh("nft", "-f", "-", text=TEXT)
    assert nftables.read() == STATE
    assert nftables.read([TABLE]) == STATE
    assert nftables.read([TABLE6]) == {kind: {} for kind in KINDS}


def test_converged_state_has_no_steps() -> None:
    assert plan(applied(STATE), STATE, OWNED).steps == []


@pytest.mark.parametrize(
    "want",
    [
        {},
        changed(("nft_element", ElementKey(CLUSTER_IPS, ("10.96.0.1", "tcp", "443")), None)),
        changed(("nft_element", ElementKey(CLUSTER_IPS, ("10.96.0.2", "udp", "53")), "")),
        changed(
            ("nft_element", ElementKey(NETWORKS, ("10.0.0.0/8",)), None),
            ("nft_element", ElementKey(NETWORKS, ("10.1.0.0/16",)), ""),
        ),
        changed(
            ("nft_element", ElementKey(SOURCES, ("10.96.0.1", "tcp", "80", "10.0.0.0/8")), None),
            ("nft_element", ElementKey(SOURCES, ("10.96.0.1", "tcp", "80", "0.0.0.0/0")), ""),
        ),
        changed(("nft_set", VIPS, NftSet(("ipv4_addr",), True))),
        changed(("nft_set", NETWORKS, NftSet(("ipv4_addr", "inet_proto"), True))),
        changed(("nft_chain", OTHERS, NftChain(None, ()))),
        changed(("nft_chain", ChainKey(TABLE, "a"), NftChain(Hook("filter", "input", -5, "drop"), ()))),
        changed(("nft_chain", ChainKey(TABLE, "prerouting"), NftChain(Hook("filter", "forward", 0), ()))),
        changed(
            ("nft_chain", SERVICES, NftChain(None, (Rule((Verdict("jump", "new"),)),))),
            ("nft_chain", ChainKey(TABLE, "new"), NftChain(None, (Rule((Verdict("goto", "others"),)),))),
            ("nft_set", CLUSTER_IPS, None),
            ("nft_element", ElementKey(CLUSTER_IPS, ("10.96.0.1", "tcp", "443")), None),
        ),
    ],
)
def test_change_and_its_undoing_converge(want: State) -> None:
    if NETWORKS in want.get("nft_set", {}) and len(want["nft_set"][NETWORKS].types) > 1:
        for key in [key for key in want["nft_element"] if key.set == NETWORKS]:
            del want["nft_element"][key]
        want["nft_chain"][SERVICES] = NftChain(None, ())
    empty: State = {kind: {} for kind in KINDS}
    assert applied(STATE) == STATE
    assert applied(want) == {**empty, **want}
    assert applied(STATE) == STATE


def standing_alone(rule: Rule) -> Rule:
    """Return a rule without the statements that refer to a set or a chain."""
    kept = (each for each in rule.statements if not isinstance(each, Lookup) and not getattr(each, "chain", ""))
    return rule._replace(statements=tuple(kept))


@settings(max_examples=25, deadline=None, database=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(rules("ip").map(standing_alone), rules("ip6").map(standing_alone))
def test_kernel_returns_each_rule_as_it_was_written(four: Rule, six: Rule) -> None:
    tables = [Step("nft_table", table, None, 0) for table in (TABLE, TABLE6)]
    chains = [
        Step("nft_chain", ChainKey(table, "c"), None, NftChain(None, (rule,)))
        for table, rule in ((TABLE, four), (TABLE6, six))
    ]
    assert nftables.apply([*tables, *chains]).failed == []
    written = nftables.read()["nft_chain"]
    assert nftables.apply([step.inverse() for step in tables]).failed == []
    assert written == {step.key: step.after for step in chains}


def test_ip6_state_is_read_as_written() -> None:
    hairpins = SetKey(TABLE6, "hairpins")
    fields = ("ip6 daddr", "meta l4proto", "th dport", "ip6 saddr")
    want: State = {
        "nft_table": {TABLE6: 0},
        "nft_set": {hairpins: NftSet(("ipv6_addr", "inet_proto", "inet_service", "ipv6_addr"), True)},
        "nft_element": {ElementKey(hairpins, ("fd00::1", "udp", "53", "fd00:244::/61")): ""},
        "nft_chain": {
            ChainKey(TABLE6, "c"): NftChain(
                None,
                (
                    Rule((Lookup(fields, "hairpins"), Masquerade())),
                    Rule((Compare("ip6 saddr", "fd00::/61"), Compare("ct original ip6 daddr", "fd00::/48"))),
                    Rule((TCP, Compare("th dport", "80"), DestinationNat("fd00::2", 80))),
                ),
            )
        },
    }
    assert applied(want) == want
    text = listed()
    for line in (
        "elements = { fd00::1 . udp . 53 . fd00:244::/61 }",
        "ip6 daddr . meta l4proto . th dport . ip6 saddr @hairpins masquerade",
        "ip6 saddr fd00::/61 ct original ip6 daddr fd00::/48",
        "tcp dport 80 dnat to [fd00::2]:80",
    ):
        assert line in text


def test_twenty_thousand_elements_fit_into_one_transaction() -> None:
    applied(STATE)
    before = nftables.generation()
    many = [(f"10.{number >> 8}.{number & 255}.1", "tcp", "80") for number in range(20000)]
    steps = elements(CLUSTER_IPS, many)
    assert nftables.apply(steps).failed == []
    assert nftables.generation() == before + 1
    assert len(nftables.read()["nft_element"]) == len(STATE["nft_element"]) + len(many)
    assert nftables.apply([step.inverse() for step in steps]).failed == []
    assert nftables.read() == STATE


def test_foreign_tables_stay_as_they_are() -> None:
    sh("nft", "-f", "-", text=FOREIGN)
    before = listed()
    theirs = nftables.read()
    assert theirs["nft_set"] == {SetKey(TableKey("ip", "theirs"), "s"): NftSet(("foreign",))}
    (chain,) = theirs["nft_chain"].values()
    assert isinstance(chain.rules[0].statements[0], Foreign)
    assert chain.rules[1].statements[:2] == (TCP, Lookup(("th dport",), "__set0"))
    for want in (STATE, {}):
        assert nftables.apply(plan(nftables.read(), want, OWNED).steps).failed == []
    assert listed() == before


def test_foreign_rule_is_restored_by_the_inverse_step() -> None:
    applied(STATE)
    sh("nft", "add", "rule", "ip", "kubenode", "others", "tcp flags syn limit rate 5/second accept")
    before, have = listed(), nftables.read()
    steps = plan(have, STATE, OWNED).steps
    assert nftables.apply(steps).failed == []
    assert nftables.read() == STATE
    assert nftables.apply([step.inverse() for step in steps]).failed == []
    assert listed() == before
