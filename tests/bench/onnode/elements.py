# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Write a large set of nftables in one transaction, by the engine and by ``nft -f`` in turns. Runs on the node.

Arguments: elements, rounds. Standard output: JSON, name to seconds of each round. The engine's times are those of its
calls in a running interpreter, those of nft of its process.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path

from engine.kernel import nftables
from engine.model.nftables import ElementKey, NftSet, SetKey, TableKey
from engine.model.step import Step

TABLE = TableKey("ip", "bench")
SET = SetKey(TABLE, "members")
TYPES = ("ipv4_addr", "inet_proto", "inet_service")
FILE = Path("/root/bench/work/elements.nft")


def nft(*arguments: str) -> float:
    """Run nft; return the seconds."""
    began = time.perf_counter()
    subprocess.run(["nft", *arguments], stdout=subprocess.DEVNULL, check=True)
    return time.perf_counter() - began


def main(elements: int, rounds: int) -> None:
    """Measure."""
    fields = [(f"10.{index >> 16}.{index >> 8 & 255}.{index & 255}", "tcp", "80") for index in range(elements)]
    steps = [
        Step("nft_table", TABLE, None, 0),
        Step("nft_set", SET, None, NftSet(TYPES)),
        *(Step("nft_element", ElementKey(SET, each), None, "") for each in fields),
    ]
    listed = ", ".join(map(" . ".join, fields))
    FILE.write_text(
        f"table {TABLE} {{\n set {SET.name} {{\n type {' . '.join(TYPES)}\n elements = {{ {listed} }}\n }}\n}}\n"
    )
    seconds: dict[str, list[float]] = {"write": [], "nft -f": []}
    for _ in range(rounds + 1):  # the first warms up
        began = time.perf_counter()
        result = nftables.apply(steps)
        seconds["write"].append(time.perf_counter() - began)
        if result.failed:
            sys.exit(str(result.failed[0]))
        state = nftables.read([TABLE])
        if any(state[step.kind].get(step.key) != step.after for step in steps):
            sys.exit("what was read is not what was written")
        nft("delete", "table", TABLE.family, TABLE.name)
        seconds["nft -f"].append(nft("-f", str(FILE)))
        if nftables.read([TABLE]) != state:
            sys.exit("nft wrote something else than the engine")
        nft("delete", "table", TABLE.family, TABLE.name)
    json.dump({name: values[1:] for name, values in seconds.items()}, sys.stdout)


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
