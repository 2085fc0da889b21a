# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Requests to every kind of Service: which pod answers, and which client address it sees.

    ask.py PLACE=NAMESPACE …       such as: ask.py host=host p1=p1

Prints the requests that were not answered as they must be; the exit status is their number.
"""

from __future__ import annotations

import sys
from typing import NamedTuple

from support.traffic.conversation import REFUSED, SILENCE, Target, asked

NODE = {4: "10.77.0.11", 6: "fd77:6b6e::11"}
CLIENT = {4: "10.77.0.101", 6: "fd77:6b6e::101"}
GATEWAY = {4: "10.244.3.1", 6: "fd00:244:3::1"}
CLUSTER_IP = {4: "10.96.0.{}", 6: "fd00:96::{}"}
EXTERNAL_IP = {4: "198.51.100.{}", 6: "2001:db8:51::{}"}
BALANCER_IP = {4: "203.0.113.{}", 6: "2001:db8:113::{}"}
# Numbers of the Services in services.yaml.
EVERY, LOCAL, STICKY, EMPTY, HAIRPIN, RANGES = 10, 11, 12, 13, 14, 15
TIMES = 4
FAMILIES = (4, 6)


class Request(NamedTuple):
    """Requests from one place, and their answers: each with its number."""

    place: str  # host: the node; p1: a pod on it; outside: another machine
    target: Target
    answers: dict[str, int]
    timeout: float = 30.0


def _shared(client: str) -> dict[str, int]:
    """Return the answers of both pods in turns, which see the same client."""
    return {f"p1 sees {client}": TIMES // 2, f"p2 sees {client}": TIMES // 2}


def _of_family(family: int) -> list[Request]:
    def cluster_ip(number: int, protocol: str = "tcp") -> Target:
        return Target(CLUSTER_IP[family].format(number), 80, protocol)

    def node_port(number: int, protocol: str = "tcp") -> Target:
        return Target(NODE[family], 30000 + number, protocol)

    external = Target(EXTERNAL_IP[family].format(EVERY), 80)
    balancer = {number: Target(BALANCER_IP[family].format(number), 80) for number in (EVERY, LOCAL, RANGES)}
    masqueraded = _shared(GATEWAY[family])
    protocols = ("tcp", "udp", "sctp")
    return [
        *(Request("host", cluster_ip(EVERY, protocol), masqueraded) for protocol in protocols),
        *(Request("outside", node_port(EVERY, protocol), masqueraded) for protocol in ("tcp", "udp")),
        Request("p1", node_port(EVERY, "sctp"), masqueraded),  # the client's kernel may have no SCTP
        Request("p1", cluster_ip(LOCAL), {f"p1 sees {GATEWAY[family]}": TIMES}),
        Request("outside", external, masqueraded),
        Request("outside", balancer[EVERY], masqueraded),
        Request("host", node_port(EVERY), masqueraded),
        Request("outside", node_port(LOCAL), {f"p1 sees {CLIENT[family]}": TIMES}),
        Request("outside", balancer[LOCAL], {f"p1 sees {CLIENT[family]}": TIMES}),
        Request("p1", cluster_ip(HAIRPIN), {f"p1 sees {GATEWAY[family]}": TIMES}),
        Request("outside", node_port(EMPTY), {REFUSED: TIMES}),
        Request("host", cluster_ip(EMPTY), {REFUSED: TIMES}),
        Request("outside", balancer[RANGES], {SILENCE: TIMES}, timeout=1.0),
    ]


def sticky(namespace: str, family: int) -> str:
    """Return what is wrong with the requests to the Service with affinity: one pod answers all; empty if nothing is."""
    answers = asked(namespace, Target(NODE[family], 30000 + STICKY), TIMES)
    return "" if len(answers) == 1 and all(" sees " in answer for answer in answers) else f"affinity: {answers}"


def main() -> int:
    """Send the requests of the places on the command line."""
    namespaces = {place: namespace for place, _, namespace in (word.partition("=") for word in sys.argv[1:])}
    problems = []
    count = 0
    for request in (request for family in FAMILIES for request in _of_family(family) if request.place in namespaces):
        answers = asked(namespaces[request.place], request.target, TIMES, timeout=request.timeout)
        count += 1
        if answers != request.answers:
            problems.append(f"from {request.place} to {request.target}: {answers}, expected {request.answers}")
    if "outside" in namespaces:
        problems += filter(None, (sticky(namespaces["outside"], family) for family in FAMILIES))
        count += len(FAMILIES)
    print("\n".join(problems) or f"{count} kinds of requests were answered as they must be")
    return min(len(problems), 125)


if __name__ == "__main__":
    sys.exit(main())
