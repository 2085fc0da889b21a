# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""iptables rules as rules of nftables: each form of rule, all settings, and words that have no form."""

from __future__ import annotations

from itertools import product

import pytest

from kubenode.engine.desired import rules, sets
from kubenode.engine.desired.nft_rules import translate
from kubenode.engine.desired.nft_words import MATCHES
from kubenode.engine.errors import InputError
from kubenode.engine.model.iptables import ChainKey
from kubenode.engine.model.nftables import Bits, Compare, Lookup, Rule, SetMark, Verdict
from kubenode.engine.render.nftables import rule_text

NAT, FILTER = ChainKey(4, "nat", "KUBE-SERVICES"), ChainKey(4, "filter", "KUBE-IPVS-FILTER")
NAT_6, FILTER_6 = (key._replace(family=6) for key in (NAT, FILTER))
OUT = "-s 203.0.113.1/32 -m ipvs --vproto {} --vaddr 203.0.113.1 --vport 80 -j DROP"
CASES = [
    (NAT, "-s 127.0.0.0/8 -j RETURN", ["ip saddr 127.0.0.0/8 return"]),
    (NAT_6, "-s ::1/128 -j RETURN", ["ip6 saddr ::1 return"]),
    (
        NAT,
        "-s 127.0.0.0/8 -d 127.0.0.0/8 -o lo -p tcp -m set --match-set KUBE-NODE-PORT-TCP dst"
        " -j KUBE-LOCALHOST-NODE-PORT",
        ['ip saddr 127.0.0.0/8 ip daddr 127.0.0.0/8 oifname "lo" tcp dport @node-port-tcp jump localhost-node-port'],
    ),
    (
        NAT,
        "-s 127.0.0.0/8 -d 127.0.0.0/8 -o lo -p sctp -j KUBE-LOCALHOST-NODE-PORT",
        ['ip saddr 127.0.0.0/8 ip daddr 127.0.0.0/8 oifname "lo" meta l4proto sctp jump localhost-node-port'],
    ),
    (
        NAT,
        "! -s 10.244.0.0/16 -m comment --comment \"a \\'b\\' c\" -m set --match-set KUBE-CLUSTER-IP dst,dst"
        " -j KUBE-MARK-MASQ",
        ["ip saddr != 10.244.0.0/16 ip daddr . meta l4proto . th dport @cluster-ip jump mark-masq comment \"a 'b' c\""],
    ),
    (
        NAT,
        "-m set --match-set KUBE-CLUSTER-IP src,dst -j KUBE-MARK-MASQ",
        ["ip saddr . meta l4proto . th dport @cluster-ip jump mark-masq"],
    ),
    (NAT, "! -i cni0 -j KUBE-MARK-MASQ", ['iifname != "cni0" jump mark-masq']),
    (NAT, "! -i cali+ -j KUBE-MARK-MASQ", ['iifname != "cali*" jump mark-masq']),
    (
        NAT_6,
        "-m set --match-set KUBE-6-EXTERNAL-IP dst,dst -m physdev ! --physdev-is-in -m addrtype ! --src-type LOCAL"
        " -j ACCEPT",
        ["ip6 daddr . meta l4proto . th dport @external-ip fib saddr type != local accept"],
    ),
    (NAT, "-m addrtype --dst-type LOCAL -j KUBE-NODE-PORT", ["fib daddr type local jump node-port"]),
    (
        NAT,
        "-p sctp -m set --match-set KUBE-NODE-PORT-SCTP-HASH dst,dst -j KUBE-MARK-MASQ",
        ["ip daddr . meta l4proto . sctp dport @node-port-sctp-hash jump mark-masq"],
    ),
    (
        NAT,
        "-m set --match-set KUBE-LOOP-BACK dst,dst,src -j MASQUERADE",
        ["ip daddr . meta l4proto . th dport . ip saddr @loop-back masquerade"],
    ),
    (NAT, "-m mark ! --mark 0x4000/0x4000 -j RETURN", ["meta mark & 0x00004000 == 0x00000000 return"]),
    (NAT, "-m mark --mark 0x1/0x1 -j ACCEPT", ["meta mark & 0x00000001 != 0x00000000 accept"]),
    (NAT, "-j MARK --set-xmark 0x4000/0x0", ["meta mark set meta mark ^ 0x00004000"]),
    (NAT, "-j MARK --set-xmark 0x4000/0x4000", ["meta mark set meta mark | 0x00004000"]),
    (NAT, "-j MASQUERADE --random-fully", ["masquerade fully-random"]),
    (
        FILTER,
        "-m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT",
        ["ct state established,related accept"],
    ),
    (
        FILTER,
        "-m set --match-set KUBE-HEALTH-CHECK-NODE-PORT dst -j ACCEPT",
        ["tcp dport @health-check-node-port accept", "udp dport @health-check-node-port accept"],
    ),
    (
        FILTER,
        "-d 127.0.0.0/8 ! -i lo -m conntrack ! --ctstate RELATED,ESTABLISHED,DNAT -j DROP",
        [
            'ip daddr 127.0.0.0/8 iifname != "lo" ct state invalid,untracked drop',
            'ip daddr 127.0.0.0/8 iifname != "lo" ct state ! established,related ct status ! dnat drop',
        ],
    ),
    (
        FILTER,
        "-p tcp -m set --match-set KUBE-NO-ENDPOINTS dst,dst -j REJECT --reject-with tcp-reset",
        ["ip daddr . meta l4proto . tcp dport @no-endpoints reject with tcp reset"],
    ),
    (
        FILTER_6,
        "-p ipv6-icmp -m set --match-set KUBE-6-IPVS-IPS dst -m icmp6 --icmpv6-type 128 -j RETURN",
        ["ip6 daddr @ipvs-ips icmpv6 type echo-request return"],
    ),
    (
        FILTER,
        "-m conntrack --ctstate NEW -m set --match-set KUBE-IPVS-IPS dst -j REJECT --reject-with icmp-port-unreachable",
        ["ct state new ip daddr @ipvs-ips reject"],
    ),
    (
        FILTER,
        "-d 10.96.0.0/12 -p tcp -m conntrack --ctstate NEW -j REJECT --reject-with tcp-reset",
        ["ip daddr 10.96.0.0/12 ct state new reject with tcp reset"],
    ),
    (
        FILTER,
        OUT.format(6),
        [
            "ip saddr 203.0.113.1 meta l4proto tcp ct original ip saddr 203.0.113.1"
            " ct original ip daddr 203.0.113.1 ct original proto-dst 80 drop"
        ],
    ),
    (
        NAT,
        "-p udp -m udp --dport 30080 -m statistic --mode random --probability 0.33333333349 -j DNAT --to-destination"
        " 10.244.1.5:8080",
        ["udp dport 30080 numgen random mod 3 0 dnat to 10.244.1.5:8080"],
    ),
]


@pytest.mark.parametrize(("chain", "rule", "wanted"), CASES, ids=[rule[:40] for _chain, rule, _wanted in CASES])
def test_rule(chain: ChainKey, rule: str, wanted: list[str]) -> None:
    assert [rule_text(translated) for translated in translate(chain, rule)] == wanted


def test_rule_is_made_of_typed_statements() -> None:
    text = '-m comment --comment "c" -m mark --mark 0x4/0x4 -p tcp -m set --match-set KUBE-NODE-PORT-TCP dst -j RETURN'
    statements = (
        Bits("meta mark", 4),
        Compare("meta l4proto", "tcp"),
        Lookup(("th dport",), "node-port-tcp"),
        Verdict("return"),
    )
    assert translate(NAT, text) == (Rule(statements, "c"),)
    assert translate(NAT, "-j MARK --set-xmark 0xa/0xff") == (Rule((SetMark(0xFFFFFF00, 0xA),)),)


LAYOUTS = [
    rules.Layout(family, bit, *flags[:1], not_local, *flags[1:], by_routes=routes, service_cidrs=cidrs)
    for family, not_locals, cidrs in (
        (4, ("", "! -s 10.244.0.0/16", "! -i cni0", "! -i cali+"), ("10.96.0.0/12",)),
        (6, ("", "! -s fd00:244::/32"), ("fd00::/108", "fd01::/112")),
    )
    for bit in (0, 14, 31)
    for not_local in not_locals
    for routes in (False, True)
    for flags in product((False, True), repeat=5)
]


def test_every_rule_of_every_setting_translates() -> None:
    """Every set is filled and empty. Each word of the vocabulary is in use, or it would not belong there."""
    everything = {*sets.SETS, sets.NO_ENDPOINTS}
    own = [(rules.OUT_FILTER, OUT.format(number)) for number in (6, 17, 132)] + [
        (rules.LOCALHOST, f"-p {protocol} -m {protocol} --dport 30080{share} -j DNAT --to-destination 10.244.1.5:80")
        for protocol in ("tcp", "udp", "sctp")
        for share in ("", " -m statistic --mode random --probability 0.50000000000")
    ]
    texts = {
        (chain, rule)
        for layout in LAYOUTS
        for filled in (everything, set())
        for chain, its in rules.chains(
            layout, filled, own if layout.family == 4 and layout.localhost_node_ports else []
        ).items()
        for rule in its
    }
    assert len(texts) > 100
    for chain, rule in texts:
        translated = translate(chain, rule)
        assert 1 <= len(translated) <= 2
        assert all(rule_text(each) for each in translated)
        assert len({each.statements[-1] for each in translated}) == 1
    words = {word for _chain, rule in texts for word in rule.split()}
    assert {name.split()[-1] for name in MATCHES} <= words


def test_one_in_n_is_read_from_every_probability() -> None:
    for left in range(2, 300):
        share = f"{round((1 << 31) / left) / (1 << 31):.11f}"
        text = f"-p tcp -m tcp --dport 1 -m statistic --mode random --probability {share}"
        (translated,) = translate(NAT, f"{text} -j DNAT --to-destination 10.0.0.1:1")
        assert f" numgen random mod {left} 0 " in rule_text(translated)


@pytest.mark.parametrize(
    ("rule", "expected"),
    [
        ("-m recent --rcheck -j ACCEPT", "words that nftables has a form for, not recent --rcheck"),
        ("! -p tcp -j ACCEPT", "words that nftables has a form for, not !  -p"),
        ("-m physdev --physdev-is-in -j ACCEPT", "not physdev --physdev-is-in"),
        ("-j LOG", "a target that nftables has a form for, not 'LOG'"),
        ("-j ACCEPT --more", "a target"),
        ("-s 10.0.0.1/32", "a target"),
        ("-s", "1 values behind -s"),
        ("-m mark --mark 0x3/0x3 -j ACCEPT", "a mark of one bit"),
        ("-m mark --mark 0x0/0x4 -j ACCEPT", "a mark of one bit"),
        ("-m conntrack --ctstate NEW,DNAT -j ACCEPT", "or a negation with DNAT"),
        ("-m conntrack ! --ctstate SNAT -j ACCEPT", "or a negation with DNAT"),
        ("-m addrtype --dst-type UNICAST -j ACCEPT", "the address type LOCAL"),
        ("-m set --match-set KUBE-CLUSTER-IP dst -j ACCEPT", "a set of the rule's family with 2 flags"),
        ("-m set --match-set KUBE-6-CLUSTER-IP dst,dst -j ACCEPT", "a set of the rule's family"),
        ("-m set --match-set KUBE-CLUSTER-IP dst,src -j ACCEPT", "dst for the port"),
        ("-p sctp -m set --match-set KUBE-NODE-PORT-TCP dst -j ACCEPT", "tcp or udp for the set"),
        ("-m ipvs --vproto 6 --vaddr 10.0.0.1 --vport 80 -j DROP", "-s before -m ipvs"),
        ("-m tcp --dport 80 -j ACCEPT", "-p before --dport"),
        ("-m statistic --mode nth --every 3 -j ACCEPT", "--mode random"),
        ("-m statistic --mode random --probability 0.40000000000 -j ACCEPT", "the probability of one in N"),
        ("-j REJECT --reject-with icmp6-port-unreachable", "a target"),
        ("-i br* -j ACCEPT", "a link name without asterisks"),
        (f'-m comment --comment "{"x" * 129}" -j ACCEPT', "a comment of at most 128 bytes"),
    ],
)
def test_words_without_a_form_are_errors(rule: str, expected: str) -> None:
    with pytest.raises(InputError) as raised:
        translate(NAT, rule)
    assert str(raised.value).startswith("IPv4 nat KUBE-SERVICES: rule is ")
    assert expected in str(raised.value)
