# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Write and read the IPVS table, by the engine and by ipvsadm in turns. Runs on the node.

Arguments: virtual servers, real servers of each, rounds. Standard output: JSON, name to seconds of each round. The
engine's times are those of its calls in a running interpreter, ipvsadm's those of its process.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time

from engine.kernel import ipvs
from engine.model.ipvs import RealServer, RealServerKey, VirtualServer, VirtualServerKey
from engine.model.step import Step


def steps(servers: int, reals: int) -> list[Step]:
    """Return the steps that make the table."""
    made = []
    for index in range(servers):
        key = VirtualServerKey("tcp", f"10.96.{index // 250}.{index % 250 + 1}", 80, 4)
        made.append(Step("virtual_server", key, None, VirtualServer()))
        for real in range(reals):
            number = index * reals + real
            address = f"10.{128 + number // 62500}.{number // 250 % 250}.{number % 250 + 1}"
            made.append(Step("real_server", RealServerKey(key, address, 8080), None, RealServer()))
    return made


def ipvsadm(*arguments: str, text: str = "") -> tuple[float, str]:
    """Run ipvsadm; return seconds and output."""
    began = time.perf_counter()
    done = subprocess.run(["ipvsadm", *arguments], input=text, stdout=subprocess.PIPE, text=True, check=True)
    return time.perf_counter() - began, done.stdout


def clear() -> None:
    """Empty the table, and wait until the kernel has freed its entries."""
    ipvsadm("--clear")
    time.sleep(0.3)


def main(servers: int, reals: int, rounds: int) -> None:
    """Measure."""
    wanted = steps(servers, reals)
    seconds: dict[str, list[float]] = {"write": [], "restore": [], "read": [], "save": []}
    clear()
    for _ in range(rounds + 1):  # the first warms up
        began = time.perf_counter()
        result = ipvs.apply(wanted, keep_going=False)
        seconds["write"].append(time.perf_counter() - began)
        if result.failed or len(result.done) != len(wanted):
            sys.exit(f"{len(result.done)} of {len(wanted)} steps done: {result.failed[:1]}")

        began = time.perf_counter()
        table = ipvs.read()
        seconds["read"].append(time.perf_counter() - began)
        if any(table[step.kind].get(step.key) != step.after for step in wanted):
            sys.exit("what was read is not what was written")

        took, text = ipvsadm("--save", "--numeric")
        seconds["save"].append(took)
        clear()
        took, _ = ipvsadm("--restore", text=text)
        seconds["restore"].append(took)
        if ipvs.read() != table:
            sys.exit("what ipvsadm restored is not what it saved")
        clear()
    json.dump({name: values[1:] for name, values in seconds.items()}, sys.stdout)


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
