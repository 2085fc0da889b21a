# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Spelling of rules.

Tests on both back ends compare it with iptables' own (support/tables/iptables_spelling.py).
"""

from __future__ import annotations

import pytest

from kubenode.engine.syntax.iptables_rule import canonical_rule, words


@pytest.mark.parametrize(
    ("family", "given", "spelled"),
    [
        (4, "--jump DROP --source 10.0.0.1", "-s 10.0.0.1/32 -j DROP"),
        (4, "-j RETURN ! -i eth0 -d 10.0.0.7/255.255.255.0", "-d 10.0.0.0/24 ! -i eth0 -j RETURN"),
        (4, "-s 0.0.0.0/0 -j ACCEPT", "-j ACCEPT"),
        (4, "! -s 0.0.0.0/0 -j ACCEPT", None),
        (
            6,
            "-s FD00:0::1 -p icmpv6 -j REJECT",
            "-s fd00::1/128 -p ipv6-icmp -j REJECT --reject-with icmp6-port-unreachable",
        ),
        (4, "-p TCP --dport 80 -j KUBE", "-p tcp -m tcp --dport 80 -j KUBE"),
        (4, "--dport 80", None),  # without a protocol
        (4, "-p tcp -m comment --comment x --dport 80:90", "-p tcp -m comment --comment x -m tcp --dport 80:90"),
        (4, "-p 17 -m udp ! --destination-port 53 --source-port 1:1", "-p udp -m udp --sport 1 ! --dport 53"),
        (4, "-p tcp --syn -j DROP", "-p tcp -m tcp --tcp-flags FIN,SYN,RST,ACK SYN -j DROP"),
        (4, '-m comment --comment "plain"', "-m comment --comment plain"),
        (4, '-m comment --comment "it\'s \\"so\\""', '-m comment --comment "it\\\'s \\"so\\""'),
        (4, "-m conntrack --ctstate ESTABLISHED,RELATED", "-m conntrack --ctstate RELATED,ESTABLISHED"),
        (4, "-m set ! --match-set S src,dst -g C", "-m set ! --match-set S src,dst -g C"),
        (4, "-m mark --mark 16384/16384", "-m mark --mark 0x4000/0x4000"),
        (4, "-j MARK --or-mark 0x4000", "-j MARK --set-xmark 0x4000/0x4000"),
        (4, "-j MARK --xor-mark 0x4000", "-j MARK --set-xmark 0x4000/0x0"),
        (4, "-j MARK --and-mark 0x4000", "-j MARK --set-xmark 0x0/0xffffbfff"),
        (4, "-j MARK --set-mark 1/2", "-j MARK --set-xmark 0x1/0x3"),
        (4, "-j MARK --set-mark 1", "-j MARK --set-xmark 0x1/0xffffffff"),
        (4, "-j MASQUERADE --random-fully", "-j MASQUERADE --random-fully"),
        (4, "-m physdev ! --physdev-is-in -j ACCEPT", "-m physdev ! --physdev-is-in -j ACCEPT"),
        (4, "-p tcp -m multiport --destination-ports 80,443:445", "-p tcp -m multiport --dports 80,443:445"),
        (4, "", ""),
    ],
)
def test_rules_are_canonical(family: int, given: str, spelled: str | None) -> None:
    assert canonical_rule(family, given) == spelled
    assert spelled is None or canonical_rule(family, spelled) == spelled


@pytest.mark.parametrize(
    "given",
    [
        "-s db.example -j ACCEPT",
        "-s 10.0.0.1,10.0.0.2 -j ACCEPT",
        "-s 10.0.0.1 -s 10.0.0.2",
        "-d 10.0.0.1/255.0.255.0",
        "-d fd00::1",
        "-p tcp --dport http",
        "-p tcp --dport 010",
        "-p tcp --dport 0x50",
        "-p tcp --dport :80",
        "-p tcp --dport \u00b2",
        "-m recent --set",
        "-j LOG --log-prefix x",
        "-j ACCEPT -j DROP",
        "-s",
        "-s !",
        "! ! -s 10.0.0.1",
        "-j ACCEPT !",
        "! -j ACCEPT",
        '-m comment --comment "open',
        "-p esp -j ACCEPT",
        "-j MARK --or-mark 1/2",
        "-j NOSUCH --option",
        "-p tcp --dport 80 --dport 81",
    ],
)
def test_unsupported_rules_are_left_to_iptables(given: str) -> None:
    assert canonical_rule(4, given) is None


def test_words_are_those_of_iptables_restore() -> None:
    assert words('a "b c" d"e f"g "" "\\"h\\\\"') == ["a", "b c", "de fg", "", '"h\\']
