# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Options of the modules in the text of the native tools, with the modules' own checks."""

from __future__ import annotations

from typing import Any

import pytest
from ansible.errors import AnsibleFilterError

from ansible_collections.kubenode.ipvs.plugins.filter.to_ipset import to_ipset
from ansible_collections.kubenode.ipvs.plugins.filter.to_iptables import to_iptables
from ansible_collections.kubenode.ipvs.plugins.filter.to_ipvsadm import to_ipvsadm


def test_virtual_servers_are_rendered_for_ipvsadm() -> None:
    services = [
        {"protocol": "udp", "address": "2001:DB8::1", "port": 53, "persistence_timeout": 60},
        {
            "protocol": "tcp",
            "address": "192.0.2.1",
            "port": 80,
            "scheduler": "wrr",
            "real_servers": [
                {"address": "198.51.100.2", "weight": 2},
                {"address": "198.51.100.1", "port": 8080, "state": "absent"},
            ],
        },
        {"protocol": "tcp", "address": "192.0.2.9", "port": 9, "state": "absent"},
        {"fwmark": 7, "real_servers": [{"address": "198.51.100.3", "forwarding_method": "direct"}]},
    ]
    assert to_ipvsadm(services).splitlines() == [
        "-A -t 192.0.2.1:80 -s wrr",
        "-a -t 192.0.2.1:80 -r 198.51.100.2:80 -m -w 2",
        "-A -f 7 -s rr",
        "-a -f 7 -r 198.51.100.3:0 -g -w 1",
        "-A -u [2001:db8::1]:53 -s rr -p 60",
    ]


def test_sets_are_rendered_for_ipset() -> None:
    sets = [
        {
            "name": "a",
            "type": "hash:net",
            "timeout": 0,
            "comment": True,
            "bucketsize": 6,
            "members": ["192.0.2.0/24", '10.0.0.1 comment "x y"'],
        },
        {"name": "b", "type": "bitmap:port", "range": "0-99"},
        {"name": "c", "state": "absent"},
        {"name": "d", "type": "list:set", "size": 4, "members": ["a", "b"]},
        {"name": "e", "type": "hash:mac", "members": [" 02:00:00:00:00:01  "]},
        {"name": "f", "type": "hash:ip", "family": "inet6"},
    ]
    assert to_ipset(sets).splitlines() == [
        "create a hash:net family inet timeout 0 comment bucketsize 6",
        "add a 192.0.2.0/24",
        'add a 10.0.0.1 comment "x y"',
        "create b bitmap:port range 0-99",
        "create d list:set size 4",
        "add d a",
        "add d b",
        "create e hash:mac",
        "add e 02:00:00:00:00:01",
        "create f hash:ip family inet6",
    ]


CHAINS: list[dict[str, Any]] = [
    {
        "name": "EDGE",
        "families": ["ipv4", "ipv6"],
        "rules": ["-p tcp -j DROP\n", {"protocol": "udp", "jump": "ACCEPT"}],
        "jumps": [
            {"chain": "INPUT"},
            {"chain": "INPUT", "match": "-i eth0"},
            {"chain": "FORWARD", "position": "last"},
            {"chain": "OUTPUT", "position": "prepended"},
        ],
    },
    {"name": "NAT", "table": "nat", "rules": []},
]


def test_chains_are_rendered_for_iptables_restore() -> None:
    four = [
        "*filter",
        ":EDGE - [0:0]",
        "-A EDGE -p tcp -j DROP",
        "-A EDGE -p udp -j ACCEPT",
        "-I OUTPUT -j EDGE",
        "-I INPUT -i eth0 -j EDGE",
        "-I INPUT -j EDGE",
        "-A FORWARD -j EDGE",
        "COMMIT",
    ]
    assert to_iptables(CHAINS).splitlines() == [*four, "*nat", ":NAT - [0:0]", "COMMIT"]
    assert to_iptables(CHAINS, "ipv6").splitlines() == four
    assert to_iptables([]) == ""


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: to_ipvsadm([{"address": "192.0.2.1", "port": 80}]), "protocol is None"),
        (lambda: to_ipvsadm([{"protocol": "icmp", "address": "192.0.2.1", "port": 80}]), "icmp"),
        (lambda: to_ipvsadm("x"), "dictionary requested"),
        (lambda: to_ipset([{"name": "a"}]), r"sets\[0\] \(a\): type is None"),
        (lambda: to_ipset([{"name": "a b", "type": "hash:ip"}]), r"sets\[0\]: name is 'a b'"),
        (lambda: to_ipset([{"name": "a", "type": "hash:magic"}]), "type is 'hash:magic'"),
        (lambda: to_ipset([{"name": "a", "type": "hash:ip", "range": "1-2"}]), "option is 'range'"),
        (lambda: to_ipset([{"name": "a", "type": "hash:mac", "family": "inet6"}]), "family is 'inet6'"),
        (
            lambda: to_ipset([{"name": "a", "type": "hash:ip", "members": ["192.0.2.1\nflush b"]}]),
            r"sets\[0\].members\[0\]: text",
        ),
        (lambda: to_ipset([{"name": "a", "type": "hash:ip"}] * 2), r"sets\[1\] and sets\[0\] are both set a"),
        (lambda: to_ipset([{"name": "a", "type": "hash:ip", "src": "/x"}]), "a file is read by the module alone"),
        (lambda: to_iptables([{"name": "INPUT"}]), "a chain that is not built in"),
        (lambda: to_iptables([{"name": "A", "rules": ["-A B"]}]), r"chains\[0\].rules\[0\]"),
        (lambda: to_iptables([], "arp"), "ipv4 or ipv6"),
    ],
)
def test_invalid_options_are_named(call: Any, words: str) -> None:
    with pytest.raises(AnsibleFilterError, match=words):
        call()
