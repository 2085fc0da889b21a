# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Measure how the engine reads and compares large tables, in turns with the tools that list them. Runs on the node.

Also measure two ways to bind addresses.

Arguments: members of a set, rules of a chain, addresses, rounds. Standard output: JSON, name to seconds of each round.
The engine's times are those of its calls in a running interpreter, the tools' those of their processes.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

from engine.kernel import addresses, ipset, iptables
from engine.model.ipset import IPSet, MemberKey
from engine.model.iptables import ChainKey
from engine.model.link import STATIC, AddressKey, RouteKey
from engine.model.step import Step
from engine.plan import plan

LINK = "bench0"
Samples = dict[str, list[float]]


def seconds(call: Callable[[], None]) -> float:
    """Return the seconds of a call."""
    began = time.perf_counter()
    call()
    return time.perf_counter() - began


def tool(*words: str) -> Callable[[], None]:
    """Return a call that runs a tool."""
    return lambda: subprocess.run(words, stdout=subprocess.DEVNULL, check=True) and None


def apply(table: Any, steps: list[Step]) -> None:
    """Apply steps; exit if one fails."""
    if failed := table.apply(steps).failed:
        sys.exit(str(failed[0]))


def in_turns(samples: Samples, rounds: int, calls: dict[str, Callable[[], None]]) -> None:
    """Measure calls in turns; the first round warms up."""
    for index in range(rounds + 1):
        for name, call in calls.items():
            spent = seconds(call)
            if index:
                samples.setdefault(name, []).append(spent)


def unchanged(steps: list[Step]) -> None:
    """Exit if a comparison finds a difference."""
    if steps:
        sys.exit(f"{len(steps)} differences, such as {steps[0]}")


def main(members: int, rules: int, ips: int, rounds: int) -> None:
    """Measure."""
    samples: Samples = {}
    header = IPSet("hash:ip", (("family", "inet"), ("hashsize", "65536"), ("maxelem", str(2 * members))))
    keys = [
        MemberKey("BENCH", f"10.{number >> 16}.{number >> 8 & 255}.{number & 255}") for number in range(1, members + 1)
    ]
    want = {"set": {"BENCH": header}, "member": dict.fromkeys(keys, "")}
    apply(ipset, plan({}, want, {}).steps)
    compare = lambda: unchanged(plan(ipset.read(), want, {"set": {"BENCH"}}).steps)  # noqa: E731
    in_turns(samples, rounds, {"ipset save": tool("ipset", "save"), "sets": compare})
    tool("ipset", "destroy", "BENCH")()

    key = ChainKey(4, "filter", "BENCH")
    texts = tuple(f"-s 10.{n >> 8}.{n & 255}.0/24 -p tcp -m tcp --dport {1024 + n} -j ACCEPT" for n in range(rules))
    chains = {"chain": {key: texts}, "jump": {}}
    apply(iptables, plan({}, chains, {}).steps)
    compare = lambda: unchanged(plan(iptables.read((4,)), chains, {"chain": {key}}).steps)  # noqa: E731
    in_turns(samples, rounds, {"iptables-save": tool("iptables-save"), "rules": compare})
    tool("iptables", "-F", "BENCH")()
    tool("iptables", "-X", "BENCH")()

    tool("ip", "link", "add", LINK, "type", "dummy")()
    many = [Step("address", AddressKey(LINK, f"10.96.{n // 250}.{n % 250 + 1}", 32), None, True) for n in range(ips)]
    one = [Step("route", RouteKey("lo", "10.96.0.0/12"), None, STATIC)]
    for _round in range(rounds):
        for name, steps in (("addresses", many), ("route", one)):
            samples.setdefault(name, []).append(seconds(lambda steps=steps: apply(addresses, steps)))
            apply(addresses, [step.inverse() for step in steps])
    tool("ip", "link", "delete", LINK)()
    json.dump(samples, sys.stdout)


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
