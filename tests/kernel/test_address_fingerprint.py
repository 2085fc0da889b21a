# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Readings that decode addresses only after a change, on a real kernel; ip is the other process."""

from __future__ import annotations

import random
from collections.abc import Iterator

import pytest
from support.processes.namespace import sh
from support.tables.believer import Believer

from kubenode.engine.kernel.rtnetlink import addresses
from kubenode.engine.model.link import AddressKey, Link
from kubenode.engine.plan import Step
from kubenode.engine.proxy.link_table import LinkTable

LINK, OTHER = "kube-test0", "kube-test1"
LINKS = [LINK, OTHER]
KEYS = [AddressKey(LINK, f"10.96.{number // 256}.{number % 256}", 32) for number in range(1, 1200)]
KEYS += [AddressKey(LINK, f"fd00:96::{number:x}", 128) for number in range(1, 20)]
CREATED = [Step("link", LINK, None, Link()), *(Step("address", key, None, True) for key in KEYS)]


@pytest.fixture
def believer() -> Iterator[Believer]:
    sh("modprobe", "dummy", "numdummies=0")
    table = LinkTable()
    started = Believer(table.apply, lambda believed: table.reading(LINKS, believed), CREATED)
    assert decodes_nothing(started)
    yield started
    for link in sh("ip", "-br", "link", "show", "type", "dummy").splitlines():
        sh("ip", "link", "del", link.split()[0])


def decodes_nothing(believer: Believer) -> bool:
    """Tell whether a reading returns the believed addresses themselves."""
    believed = believer.believed["address"]
    return believer.read()["address"] is believed


@pytest.mark.parametrize(
    "change",
    [
        f"addr add 10.97.0.1/32 dev {LINK}",
        f"addr del 10.96.0.1/32 dev {LINK}",
        f"addr del fd00:96::1/128 dev {LINK}",
        f"addr flush dev {LINK}",
        f"link set dev {LINK} name {OTHER}",
        f"link add {OTHER} type dummy",
        f"link set dev {LINK} up",
        f"link del {LINK}",
    ],
)
def test_change_by_another_process_is_read(believer: Believer, change: str) -> None:
    sh("ip", *change.split())
    assert believer.read() == addresses.read(LINKS)
    assert believer.read() == addresses.read(LINKS)


def test_addresses_of_other_links_are_no_change(believer: Believer) -> None:
    sh("ip", "addr", "add", "192.0.2.9/32", "dev", "lo")
    try:
        assert decodes_nothing(believer)
    finally:
        sh("ip", "addr", "del", "192.0.2.9/32", "dev", "lo")


def test_own_write_that_another_process_reverts_is_read(believer: Believer) -> None:
    key = AddressKey(LINK, "10.98.0.1", 32)
    believer.write([Step("address", key, None, True)])
    sh("ip", "addr", "del", f"{key.address}/32", "dev", LINK)
    assert key not in believer.read()["address"]
    assert decodes_nothing(believer)


@pytest.mark.parametrize("seed", range(3))
def test_write_between_slices_is_read_next_time(believer: Believer, seed: int) -> None:
    dice = random.Random(seed)
    for number in range(20):
        step = Step("address", AddressKey(LINK, f"10.99.0.{number}", 32), None, True)
        believer.read_beside([step], dice.randrange(8))
        assert believer.read() == addresses.read(LINKS)
