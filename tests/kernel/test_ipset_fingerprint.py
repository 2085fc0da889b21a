# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Readings that decode sets only after a change, on a real kernel; ipset is the other process."""

from __future__ import annotations

import random
from collections.abc import Iterator

import pytest
from support.processes.namespace import sh
from support.tables.believer import Believer

from kubenode.engine.kernel import ipset
from kubenode.engine.model.ipset import IPSet, MemberKey
from kubenode.engine.plan import Step
from kubenode.engine.proxy.ipset_table import IpsetTable

ADDRESSES, PORTS, ABSENT = "KUBE-TEST-A", "KUBE-TEST-P", "KUBE-TEST-NONE"
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


@pytest.fixture
def names() -> list[str]:
    return [ADDRESSES, PORTS, ABSENT]


@pytest.fixture
def believer(names: list[str]) -> Iterator[Believer]:
    table = IpsetTable()
    started = Believer(table.apply, lambda believed: table.reading(names, believed), CREATED)
    assert started.reads_nothing()
    yield started
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
def test_change_by_another_process_is_read(believer: Believer, names: list[str], change: str) -> None:
    sh("ipset", *change.split())
    assert believer.read() == ipset.read(names)
    assert believer.read() == ipset.read(names)


def test_own_write_that_another_process_reverts_is_read(believer: Believer) -> None:
    key = MemberKey(ADDRESSES, "10.96.9.77")
    believer.write([Step("member", key, None, "")])
    sh("ipset", "del", ADDRESSES, key.member)
    assert key not in believer.read()["member"]
    assert believer.reads_nothing()


def test_other_names_are_read(believer: Believer, names: list[str]) -> None:
    names.remove(PORTS)
    assert believer.read() == ipset.read([ADDRESSES])
    names.append(PORTS)
    assert believer.read() == ipset.read(names)


@pytest.mark.parametrize("seed", range(3))
def test_write_between_slices_is_read_next_time(believer: Believer, names: list[str], seed: int) -> None:
    dice = random.Random(seed)
    for number in range(20):
        believer.read_beside([Step("member", MemberKey(ADDRESSES, f"10.97.0.{number}"), None, "")], dice.randrange(4))
        assert believer.read() == ipset.read(names)
