# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Readings that decode sets only after a change, on a real kernel; ipset is the other process."""

from __future__ import annotations

import random
from collections.abc import Iterator

import pytest
from support.processes.namespace import sh

from kubenode.engine.kernel import finished, ipset
from kubenode.engine.model import State
from kubenode.engine.model.ipset import IPSet, MemberKey
from kubenode.engine.plan import Step
from kubenode.engine.proxy.ipset_table import IpsetTable

ADDRESSES, PORTS, ABSENT, TIMED = "KUBE-TEST-A", "KUBE-TEST-P", "KUBE-TEST-NONE", "KUBE-TEST-T"
NAMES = [ADDRESSES, PORTS, ABSENT]
INET = ("family", "inet")
CREATED = [
    Step("set", ADDRESSES, None, IPSet("hash:ip", (INET, ("hashsize", "1024"), ("maxelem", "65536")))),
    Step("set", PORTS, None, IPSet("bitmap:port", (("range", "0-65535"),))),
    *[
        Step("member", MemberKey(ADDRESSES, f"10.96.{number // 256}.{number % 256}"), None, "")
        for number in range(1, 600)
    ],
    *[Step("member", MemberKey(PORTS, str(number)), None, "") for number in range(30000, 30600)],
]


class Believer:
    """A service proxy's part of a comparison: it believes what it has read or written last."""

    def __init__(self) -> None:
        self.table = IpsetTable()
        self.names = list(NAMES)
        self.believed: State = {"set": {}, "member": {}}
        self.write(CREATED)
        self.read()
        assert self.reads_nothing()

    def write(self, steps: list[Step]) -> None:
        assert self.table.apply(steps).failed == []
        for step in steps:
            self.believed[step.kind].pop(step.key, None)
            if step.after is not None:
                self.believed[step.kind][step.key] = step.after

    def read(self) -> State:
        self.believed = finished(self.table.reading(self.names, self.believed))
        return self.believed

    def reads_nothing(self) -> bool:
        """Tell whether a reading returns the believed items themselves."""
        before = dict(self.believed)
        return all(self.read()[kind] is items for kind, items in before.items())


@pytest.fixture
def believer() -> Iterator[Believer]:
    yield Believer()
    sh("ipset", "destroy")


@pytest.mark.parametrize(
    "change",
    [
        f"add {ADDRESSES} 10.96.9.9",
        f"del {ADDRESSES} 10.96.0.1",
        f"flush {PORTS}",
        f"destroy {PORTS}",
        f"create {ABSENT} hash:ip",
        f"rename {PORTS} {ABSENT}",
        f"create {ABSENT} hash:ip timeout 7",
    ],
)
def test_change_by_another_process_is_read(believer: Believer, change: str) -> None:
    sh("ipset", *change.split())
    assert believer.read() == ipset.read(NAMES)
    assert believer.read() == ipset.read(NAMES)


def test_own_write_that_another_process_reverts_is_read(believer: Believer) -> None:
    key = MemberKey(ADDRESSES, "10.96.9.77")
    believer.write([Step("member", key, None, "")])
    sh("ipset", "del", ADDRESSES, key.member)
    assert key not in believer.read()["member"]
    assert believer.reads_nothing()


def test_other_names_are_read(believer: Believer) -> None:
    believer.names.remove(PORTS)
    assert believer.read() == ipset.read([ADDRESSES])
    believer.names.append(PORTS)
    assert believer.read() == ipset.read(NAMES)


@pytest.mark.parametrize("seed", range(3))
def test_write_between_slices_is_read_next_time(believer: Believer, seed: int) -> None:
    dice = random.Random(seed)
    for number in range(20):
        key = MemberKey(ADDRESSES, f"10.97.0.{number}")
        slices = believer.table.reading(NAMES, believer.believed)
        for _slice in range(dice.randrange(4)):
            next(slices, None)
        believer.write([Step("member", key, None, "")])
        for _slice in slices:
            pass
        assert believer.read() == ipset.read(NAMES)
