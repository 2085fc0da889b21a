# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Measure how long the agent's tables are missing after ``nft flush ruleset``. Runs on the node.

Arguments: services, endpoints of each, rounds. Standard output: JSON, the list of seconds from the start of the command
until both tables are there again. A table comes with all of its sets and rules, in one transaction.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time

from engine.kernel import nftables
from engine.kernel.nftables.read import read_types
from engine.model.nftables import TableKey

from agent import PATIENCE, Agent

TABLES = (TableKey("ip", "kubenode"), TableKey("ip6", "kubenode"))


def main(services: int, endpoints: int, rounds: int) -> None:
    """Measure."""
    agent = Agent(services, endpoints, "nftables")
    agent.write_changing()
    agent.start()
    seconds = []
    for _ in range(rounds):
        time.sleep(5)
        generation, began = nftables.generation(), time.perf_counter()
        subprocess.run(["nft", "flush", "ruleset"], check=True)
        while nftables.generation() == generation or not all(read_types([table]) for table in TABLES):
            if time.perf_counter() - began > PATIENCE:
                sys.exit("the tables never came back")
            time.sleep(0.002)
        seconds.append(time.perf_counter() - began)
    agent.check()
    agent.stop()
    agent.clean()
    json.dump(seconds, sys.stdout)


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
