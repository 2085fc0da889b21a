# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Rules as tasks give them, and as ``iptables-save`` prints them."""

from __future__ import annotations

from typing import Any

GIVEN_AND_SAVED = [
    ("-p tcp --dport 443 -j ACCEPT", "-p tcp -m tcp --dport 443 -j ACCEPT"),
    (
        "-j ACCEPT -p tcp --destination-port https --source 192.0.2.7",
        "-s 192.0.2.7/32 -p tcp -m tcp --dport 443 -j ACCEPT",
    ),
    ("! -s 192.0.2.9/24  -j RETURN", "! -s 192.0.2.0/24 -j RETURN"),
    ("-m comment --comment word -j RETURN", "-m comment --comment word -j RETURN"),
    ('-m comment --comment "line\u2028break" -j RETURN\n', '-m comment --comment "line\u2028break" -j RETURN'),
    ('-m comment --comment "try -h or --help" -j RETURN', '-m comment --comment "try -h or --help" -j RETURN'),
    (
        '-m comment --comment "no --match-set nosuch" -j RETURN',
        '-m comment --comment "no --match-set nosuch" -j RETURN',
    ),
    ('-m comment --comment "two  words" -j RETURN', '-m comment --comment "two  words" -j RETURN'),
    (
        "-m conntrack --ctstate ESTABLISHED,RELATED -j ACCEPT",
        "-m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT",
    ),
    ("-m set --match-set trusted src -j RETURN", "-m set --match-set trusted src -j RETURN"),
    ("-j FOREIGN", "-j FOREIGN"),
    ("-g OTHER", "-g OTHER"),
    ("-j MARK --set-mark 1", "-j MARK --set-xmark 0x1/0xffffffff"),
]

FIELDS_AND_SAVED: list[tuple[dict[str, Any], str]] = [
    ({"jump": "DROP"}, "-j DROP"),
    ({"protocol": "tcp", "destination_port": 443, "jump": "ACCEPT"}, "-p tcp -m tcp --dport 443 -j ACCEPT"),
    (
        {"protocol": "udp", "source_port": ["53", "1000:2000"], "destination_port": "!53", "goto": "FOREIGN"},
        "-p udp -m multiport --sports 53,1000:2000 -m udp ! --dport 53 -g FOREIGN",
    ),
    ({"source": "192.0.2.7/24", "destination": "!198.51.100.1"}, "-s 192.0.2.0/24 ! -d 198.51.100.1/32"),
    (
        {"in_interface": "eth+", "comment": 'the "front" door'},
        '-i eth+ -m comment --comment "the \\"front\\" door"',
    ),
    (
        {"ctstate": ["RELATED", "ESTABLISHED"], "jump": "RETURN"},
        "-m conntrack --ctstate RELATED,ESTABLISHED -j RETURN",
    ),
    ({"match_set": "!trusted src", "jump": "DROP"}, "-m set ! --match-set trusted src -j DROP"),
    ({"mark": "!0x1/0x1", "limit": "5/min"}, "-m mark ! --mark 0x1/0x1 -m limit --limit 5/min"),
    (
        {
            "protocol": "tcp",
            "match": "-m tcp --tcp-flags SYN,RST SYN",
            "jump": "REJECT",
            "target_options": "--reject-with tcp-reset",
        },
        "-p tcp -m tcp --tcp-flags SYN,RST SYN -j REJECT --reject-with tcp-reset",
    ),
]
