# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Sliced reads of an IPVS table that changes between the slices.

Every untouched item is read with its value, wherever its position has moved.
"""

from __future__ import annotations

import random
import subprocess
from typing import Any

import pytest
from support.processes.namespace import fresh, sh

from kubenode.engine.kernel import ipvs
from kubenode.engine.kernel.ipvs import dump, proc
from kubenode.engine.model.ipvs import RealServer, RealServerKey, VirtualServer, VirtualServerKey
from kubenode.engine.plan import Step

COUNT = 300


@pytest.fixture(autouse=True)
def _small_slices(monkeypatch: pytest.MonkeyPatch) -> None:
    subprocess.run(["modprobe", "-a", "ip_vs", "ip_vs_rr"], check=True)
    fresh()
    sh("ip", "link", "set", "lo", "up")
    monkeypatch.setattr(proc, "_PIECE_BYTES", 1)  # a piece is one read(2): a page
    monkeypatch.setattr(dump, "_A_SLICE", 32)


def service(number: int) -> list[Step]:
    """Return the steps that create a virtual server with a few real servers."""
    plain = VirtualServerKey("tcp", f"10.96.{number >> 8}.{number & 255}", 80, 4)
    key = plain if number % 10 else VirtualServerKey("fwmark", "", number + 1, 4)
    reals = [RealServerKey(key, f"10.244.{number % 250}.{last}", 8080) for last in range(1, 4 + number % 5)]
    made = [Step("real_server", real, None, RealServer(1 + number % 3)) for real in reals]
    return [Step("virtual_server", key, None, VirtualServer()), *made]


def items(steps: list[Step]) -> dict[Any, Any]:
    return {step.key: step.after for step in steps}


def write(steps: list[Step]) -> None:
    result = ipvs.apply(steps)
    assert result.failed == []


@pytest.mark.parametrize("seed", range(4))
def test_untouched_virtual_servers_are_read_during_changes(seed: int) -> None:
    dice = random.Random(seed)
    present = list(range(COUNT))
    for number in present:
        write(service(number))
    following, touched, slices = COUNT, set(), 0
    reading = ipvs.reading([service(1)[0].key, service(10)[0].key])
    while True:
        try:
            next(reading)
        except StopIteration as end:
            state = end.value
            break
        slices += 1
        for _change in range(dice.randrange(4)):
            if dice.random() < 0.5:
                gone = present.pop(dice.randrange(len(present)))
                touched.add(gone)
                write([step.inverse() for step in reversed(service(gone))])
            else:
                touched.add(following)
                present.append(following)
                write(service(following))
                following += 1
    assert slices > 20
    seen = {**state["virtual_server"], **state["real_server"]}
    expected = {
        key: value
        for number in range(following)
        if number not in touched
        for key, value in items(service(number)).items()
    }
    assert {key: seen.get(key) for key in expected} == expected
    untouched = {service(number)[0].key for number in range(following) if number not in touched}
    assert {key for key in seen if key in untouched or getattr(key, "server", None) in untouched} == expected.keys()


def test_abandoned_read_leaves_nothing_open() -> None:
    write(service(1))
    reading = ipvs.reading()
    next(reading)
    reading.close()
    assert ipvs.read()["real_server"] == {step.key: step.after for step in service(1)[1:]}
