# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Sets read from the kernel equal sets read from ipset(8)."""

from __future__ import annotations

import subprocess

import pytest
from support.processes.namespace import fresh, sh
from support.tables.sets import KNOWN, UNKNOWN

from kubenode.engine.kernel import ipset
from kubenode.engine.kernel.ipset import dump


@pytest.fixture(autouse=True)
def _namespace() -> None:
    subprocess.run(["modprobe", "-a", "ip_set"], check=True)
    fresh()


def names() -> list[str]:
    return sh("ipset", "list", "-n").split()


def test_dumped_sets_match_ipset() -> None:
    sh("ipset", "restore", text=KNOWN)
    assert len(names()) == 10
    assert dump.read(names()) == ipset.read()
    assert dump.read(["A", "gone"])["set"].keys() == {"A"}
    assert len(ipset.read(["B", "N"])["member"]) == 6


def test_many_members_are_read_from_many_messages() -> None:
    lines = [f"add P 10.{number >> 8}.{number & 255}.1,tcp:{number + 1}" for number in range(20_000)]
    sh("ipset", "restore", text="\n".join(["create P hash:ip,port", *lines]) + "\n")
    assert dump.read(["P"]) == ipset.read()


@pytest.mark.parametrize("what", UNKNOWN)
def test_unknown_types_are_left_to_ipset(what: str) -> None:
    sh("ipset", "restore", text=UNKNOWN[what])
    with pytest.raises(dump.UnfamiliarError):
        dump.read(["X"])
    found = ipset.read(["X", "gone"])
    assert found == ipset.read()
    assert len(found["member"]) == 1
