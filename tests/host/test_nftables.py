# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tables of nftables on this machine's kernel, in a namespace of its own; the tool ``nft`` is the second opinion."""

from __future__ import annotations

import json
from collections.abc import Iterable

import pytest
from hypothesis import HealthCheck, given, settings
from support import properties  # noqa: F401
from support.nftables import rules
from support.processes.namespace import fresh, sh

from kubenode.engine.errors import BusyError
from kubenode.engine.kernel import nftables
from kubenode.engine.kernel.nftables.write import rehearse
from kubenode.engine.model import State
from kubenode.engine.model.nftables import (
    Bits,
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
    Random,
    Reject,
    Rule,
    SetKey,
    SetMark,
    TableKey,
    Verdict,
)
from kubenode.engine.model.step import Step
from kubenode.engine.plan import plan

TABLE, TABLE6 = TableKey("ip", "kubenode"), TableKey("ip6", "kubenode")
OWNED = {"nft_table": [TABLE, TABLE6]}
SERVICE = ("ip daddr", "meta l4proto", "th dport")
KINDS = ("nft_table", "nft_set", "nft_element", "nft_chain")
FOREIGN = (
    "table ip theirs { set s { type ether_addr; }; chain c { counter packets 1 bytes 2; tcp dport { 1, 2 } accept; }; }"
)

# Text for nft, and the state that it describes.
TEXT = """\
table ip kubenode {
	set cluster_ips {
		type ipv4_addr . inet_proto . inet_service
		elements = { 10.96.0.1 . tcp . 443 }
	}

	set node_ports {
		type inet_proto . inet_service
	}

	set sources {
		type ipv4_addr . inet_proto . inet_service . ipv4_addr
		flags interval
		elements = { 10.96.0.1 . tcp . 80 . 10.0.0.0/8 }
	}

	set vips {
		type ipv4_addr
		elements = { 10.96.0.1 }
	}

	set networks {
		type ipv4_addr
		flags interval
		elements = { 10.0.0.0/8, 11.0.0.0/8 }
	}

	chain services {
		ip saddr != 10.244.0.0/16 ip daddr . meta l4proto . th dport @cluster_ips meta mark set meta mark | 0x00004000
		fib daddr type local meta l4proto . th dport @node_ports return comment "node ports"
		ct state established,new ct status ! dnat iifname != "lo" drop
		ct original ip daddr 10.96.0.0/12 meta l4proto tcp ct original proto-dst 80 accept
		numgen random mod 2 0 ip daddr @networks goto others
	}

	chain others {
		meta mark & 0x00004000 == 0x00000000 return
		icmp type echo-request reject
		reject with tcp reset
	}

	chain prerouting {
		type nat hook prerouting priority dstnat; policy accept;
		jump services
		tcp dport 80 dnat to 10.0.0.1:8080
	}

	chain postrouting {
		type nat hook postrouting priority srcnat; policy accept;
		meta mark set meta mark ^ 0x00004000
		masquerade fully-random
	}
}
"""
CLUSTER_IPS, VIPS = SetKey(TABLE, "cluster_ips"), SetKey(TABLE, "vips")
SOURCES, NETWORKS = SetKey(TABLE, "sources"), SetKey(TABLE, "networks")
SERVICES, OTHERS = ChainKey(TABLE, "services"), ChainKey(TABLE, "others")
TCP = Compare("meta l4proto", "tcp")
STATE: State = {
    "nft_table": {TABLE: 0},
    "nft_set": {
        CLUSTER_IPS: NftSet(("ipv4_addr", "inet_proto", "inet_service")),
        SetKey(TABLE, "node_ports"): NftSet(("inet_proto", "inet_service")),
        SOURCES: NftSet(("ipv4_addr", "inet_proto", "inet_service", "ipv4_addr"), True),
        VIPS: NftSet(("ipv4_addr",)),
        NETWORKS: NftSet(("ipv4_addr",), True),
    },
    "nft_element": {
        ElementKey(CLUSTER_IPS, ("10.96.0.1", "tcp", "443")): "",
        ElementKey(SOURCES, ("10.96.0.1", "tcp", "80", "10.0.0.0/8")): "",
        ElementKey(VIPS, ("10.96.0.1",)): "",
        ElementKey(NETWORKS, ("10.0.0.0/8",)): "",
        ElementKey(NETWORKS, ("11.0.0.0/8",)): "",
    },
    "nft_chain": {
        SERVICES: NftChain(
            None,
            (
                Rule(
                    (
                        Compare("ip saddr", "10.244.0.0/16", True),
                        Lookup(SERVICE, "cluster_ips"),
                        SetMark(0xFFFFBFFF, 0x4000),
                    )
                ),
                Rule(
                    (Compare("fib daddr type", "local"), Lookup(SERVICE[1:], "node_ports"), Verdict("return")),
                    "node ports",
                ),
                Rule(
                    (
                        Bits("ct state", 10),
                        Bits("ct status", 0x20, True),
                        Compare("iifname", "lo", True),
                        Verdict("drop"),
                    )
                ),
                Rule(
                    (
                        Compare("ct original ip daddr", "10.96.0.0/12"),
                        TCP,
                        Compare("ct original proto-dst", "80"),
                        Verdict("accept"),
                    )
                ),
                Rule((Random(2), Lookup(("ip daddr",), "networks"), Verdict("goto", "others"))),
            ),
        ),
        OTHERS: NftChain(
            None,
            (
                Rule((Bits("meta mark", 0x4000, True), Verdict("return"))),
                Rule(
                    (
                        Compare("meta l4proto", "icmp"),
                        Compare("icmp type", "echo-request"),
                        Reject("port-unreachable"),
                    )
                ),
                Rule((TCP, Reject("tcp reset"))),
            ),
        ),
        ChainKey(TABLE, "prerouting"): NftChain(
            Hook("nat", "prerouting", -100),
            (
                Rule((Verdict("jump", "services"),)),
                Rule((TCP, Compare("th dport", "80"), DestinationNat("10.0.0.1", 8080))),
            ),
        ),
        ChainKey(TABLE, "postrouting"): NftChain(
            Hook("nat", "postrouting", 100),
            (Rule((SetMark(0xFFFFFFFF, 0x4000),)), Rule((Masquerade(True),))),
        ),
    },
}


@pytest.fixture(autouse=True)
def namespace() -> None:
    fresh()


def applied(want: State) -> State:
    """Bring the kernel to a state; return what it has then."""
    outcome = nftables.apply(plan(nftables.read(), want, OWNED).steps)
    assert outcome.failed == []
    return nftables.read()


def changed(*changes: tuple[str, object, object]) -> State:
    """Return STATE with other values; None removes an item."""
    state = {kind: dict(items) for kind, items in STATE.items()}
    for kind, key, value in changes:
        state[kind][key] = value
        if value is None:
            del state[kind][key]
    return state


def elements(name: SetKey, members: Iterable[tuple[str, ...]]) -> list[Step]:
    return [Step("nft_element", ElementKey(name, fields), None, "") for fields in members]


def listed() -> str:
    return sh("nft", "list", "ruleset")


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


def test_refused_step_is_named_and_leaves_all_as_it_was() -> None:
    applied(STATE)
    before = listed()
    good = elements(CLUSTER_IPS, [(f"10.0.0.{number}", "tcp", "80") for number in range(200)])
    missing = Step("nft_element", ElementKey(CLUSTER_IPS, ("10.9.9.9", "tcp", "80")), "", None)
    outcome = nftables.apply([*good, missing])
    assert (outcome.done, [failure.step for failure in outcome.failed]) == ([], [missing])
    assert "No such file" in outcome.failed[0].message
    assert listed() == before


@pytest.mark.parametrize("place", [0, 7, 199])
def test_refused_element_is_named_among_many(place: int) -> None:
    applied(STATE)
    steps = elements(SOURCES, [("10.96.0.2", "tcp", str(port), "10.0.0.0/8") for port in range(1, 200)])
    overlap = elements(SOURCES, [("10.96.0.1", "tcp", "80", "10.1.0.0/16")])
    outcome = nftables.apply([*steps[:place], *overlap, *steps[place:]], keep_going=True)
    assert [failure.step for failure in outcome.failed] == overlap
    assert "overlaps" in outcome.failed[0].message
    assert outcome.done == steps
    assert len(nftables.read()["nft_element"]) == len(STATE["nft_element"]) + len(steps)


def test_refused_chain_fails_all_steps() -> None:
    applied(STATE)
    bad = Step("nft_chain", ChainKey(TABLE, "bad"), None, NftChain(None, (Rule((Verdict("jump", "nowhere"),)),)))
    good = elements(VIPS, [("10.0.0.9",)])
    outcome = nftables.apply([*good, bad], keep_going=True)
    assert outcome.done == []
    assert [failure.step for failure in outcome.failed] == [bad, *good]
    assert "not done together with nftables chain ip kubenode bad" in outcome.failed[1].message
    assert nftables.read() == STATE


def test_value_that_cannot_be_written_is_named() -> None:
    applied(STATE)
    (bad,) = elements(VIPS, [("fd00::1",)])
    outcome = nftables.apply([bad])
    assert [failure.step for failure in outcome.failed] == [bad]
    assert "fd00::1" in outcome.failed[0].message


def test_change_of_another_process_is_noticed() -> None:
    number, have = nftables.read_generation()
    steps = plan(have, STATE, OWNED).steps
    sh("nft", "add", "table", "ip", "theirs")
    with pytest.raises(BusyError):
        nftables.apply(steps, generation=number)
    assert nftables.read([TABLE])["nft_table"] == {}
    assert nftables.apply(steps, generation=nftables.generation()).failed == []


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


def test_probe_and_rehearsal_change_nothing() -> None:
    before = nftables.generation()
    assert nftables.missing_features() == []
    assert rehearse(plan({}, STATE, OWNED).steps) == []
    assert nftables.generation() == before
    bad = Step("nft_chain", ChainKey(TABLE, "bad"), None, NftChain(None, (Rule((Lookup(("ip daddr",), "none"),)),)))
    assert [failure.step for failure in rehearse([Step("nft_table", TABLE, None, 0), bad])] == [bad]
    assert nftables.generation() == before
