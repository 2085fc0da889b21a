# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The codec's speed against ipvsadm on this kernel: a guard with the bars of ``make bench``, on a table of a third of its size."""

from __future__ import annotations

import subprocess
import time
from statistics import median

from kubenode.engine.kernel import ipvs
from kubenode.engine.kernel.ipvs import control
from kubenode.engine.model.ipvs import RealServer, RealServerKey, VirtualServer, VirtualServerKey
from kubenode.engine.plan import Step

SERVERS, REALS, ROUNDS = 300, 5, 3


def table() -> list[Step]:
    keys = [VirtualServerKey("tcp", f"10.96.{number >> 8}.{number & 255}", 80, 4) for number in range(SERVERS)]
    servers = [Step("virtual_server", key, None, VirtualServer()) for key in keys]
    pods = [RealServerKey(key, f"10.244.{real}.{at & 255}", 8080 + at) for at, key in enumerate(keys) for real in range(REALS)]
    return servers + [Step("real_server", pod, None, RealServer()) for pod in pods]


def ipvsadm(*options: str, text: str = "") -> tuple[float, str]:
    start = time.perf_counter()
    done = subprocess.run(["ipvsadm", *options], input=text, capture_output=True, text=True, check=True)
    return time.perf_counter() - start, done.stdout


def test_writing_and_reading_keep_far_below_ipvsadm() -> None:
    steps = table()
    wanted = {step.key: step.after for step in steps}
    writes, reads = [], []
    for _round in range(ROUNDS):
        control.flush()
        start = time.perf_counter()
        assert len(ipvs.apply(steps).done) == len(steps)
        write = time.perf_counter() - start
        start = time.perf_counter()
        state = ipvs.read()
        read = time.perf_counter() - start
        assert {**state["virtual_server"], **state["real_server"]} == wanted
        save, text = ipvsadm("--save", "--numeric")
        control.flush()
        restore, _nothing = ipvsadm("--restore", text=text)
        assert ipvs.read() == state
        writes.append(write / restore)
        reads.append(read / save)
    control.flush()
    assert median(writes) <= 0.75, f"writing takes {writes} of ipvsadm's time"
    assert median(reads) <= 0.2, f"reading takes {reads} of ipvsadm's time"
