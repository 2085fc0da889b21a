# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Measure the modules' own time for large sets and chains, in turns with the kernel's tools. Runs on the node.

Arguments: members of the set, how many of them change, rules of the chain, rounds. Standard output: JSON, name to
seconds of each round.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path

ONE = Path(__file__).with_name("one_module.py")
WORK = Path("/tmp/bench-modules")
Samples = dict[str, list[float]]


def module(name: str, changes: int, **arguments: object) -> float:
    """Run a module once; return its own seconds. Exit if it does not make the expected number of changes."""
    done = subprocess.run(
        [sys.executable, ONE, name], input=json.dumps(arguments), stdout=subprocess.PIPE, text=True, check=True
    )
    answer = json.loads(done.stdout)
    if answer["result"].get("failed") or len(answer["result"]["lines"]) != changes:
        sys.exit(
            f"{name}: {len(answer['result'].get('lines', ()))} changes instead of {changes}:"
            f" {answer['result'].get('msg')}"
        )
    return float(answer["seconds"])


def tool(*arguments: str) -> float:
    """Run a tool; return its seconds."""
    began = time.perf_counter()
    subprocess.run(arguments, stdout=subprocess.PIPE, check=True)
    return time.perf_counter() - began


def sets(members: int, changed: int, rounds: int) -> Samples:
    """Measure ``ipsets``: without changes, and with a part of the members exchanged and restored."""
    addresses = [f"10.{number >> 16}.{number >> 8 & 255}.{number & 255}" for number in range(1, members + 1)]
    others = [f"172.16.{number >> 8}.{number & 255}" for number in range(1, changed + 1)]
    texts = ["\n".join(each) + "\n" for each in (addresses, addresses[changed:] + others)]
    path = WORK / "members.txt"
    wanted = {
        "owner": "bench",
        "sets": [{"name": "bench", "type": "hash:ip", "maxelem": 2 * members, "src": str(path), "remote_src": True}],
    }
    seconds: Samples = {"ipset save": [], "sets unchanged": [], "sets changed": []}
    path.write_text(texts[0])
    module("ipsets", members + 1, **wanted)
    for index in range(rounds + 1):  # the first warms up
        seconds["ipset save"].append(tool("ipset", "save", "bench"))
        seconds["sets unchanged"].append(module("ipsets", 0, **wanted))
        path.write_text(texts[(index + 1) % 2])
        seconds["sets changed"].append(module("ipsets", 2 * changed, **wanted))
    subprocess.run(
        [sys.executable, ONE, "ipsets"],
        input='{"owner": "bench", "purge": "owned"}',
        text=True,
        stdout=subprocess.DEVNULL,
        check=True,
    )
    return seconds


def chains(rules: int, rounds: int) -> Samples:
    """Measure ``iptables_chains`` without changes, with rules in the usual spelling of operators."""
    texts = [
        f"-p tcp -s 10.{number >> 8}.{number & 255}.0/24 --dport {1024 + number} -j ACCEPT" for number in range(rules)
    ]
    wanted = {"owner": "bench", "chains": [{"name": "BENCH", "rules": texts, "jumps": [{"chain": "FORWARD"}]}]}
    seconds: Samples = {"iptables-save": [], "chains unchanged": []}
    module("iptables_chains", 2, **wanted)
    for _index in range(rounds + 1):
        seconds["iptables-save"].append(tool("iptables-save"))
        seconds["chains unchanged"].append(module("iptables_chains", 0, **wanted))
    module("iptables_chains", 2, owner="bench", purge="owned")
    return seconds


def main(members: int, changed: int, rules: int, rounds: int) -> None:
    """Measure."""
    WORK.mkdir(exist_ok=True)
    seconds = {**sets(members, changed, rounds), **chains(rules, rounds)}
    json.dump({name: values[1:] for name, values in seconds.items()}, sys.stdout)


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
