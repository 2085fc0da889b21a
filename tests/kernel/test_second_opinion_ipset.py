# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The kernel's sets of every type, read by the engine and by pyroute2."""

from __future__ import annotations

import random
import subprocess
from typing import Any

import pytest
from support.processes.namespace import fresh, sh
from support.second_opinion import ipset as second_opinion
from support.tables import set_members
from support.tables.sets import KNOWN

from kubenode.engine.kernel import ipset

LISTED = "create one hash:ip\ncreate two hash:ip family inet6\n"
PLAIN = [
    case
    for case in set_members.cases()
    if "comment" not in case.values[1] and "netmask" not in case.values[1]  # pyroute2 decodes neither
]


@pytest.fixture(autouse=True)
def _namespace() -> None:
    subprocess.run(["modprobe", "-a", "ip_set"], check=True)
    fresh()


def test_service_proxy_sets_read_as_with_pyroute2() -> None:
    sh("ipset", "restore", text=KNOWN)
    names = sh("ipset", "list", "-n").split()
    assert second_opinion.read(names) == ipset.read(names)


@pytest.mark.parametrize(("kind", "chosen"), PLAIN)
def test_sets_of_every_type_read_as_with_pyroute2(kind: str, chosen: dict[str, Any]) -> None:
    draw = random.Random(f"{kind} {sorted(chosen)}")
    options = " ".join(f"{name} {value}" for name, value in chosen.items())
    lines = [f"create X {kind} {options}", *(f"add X {set_members.member(draw, kind, chosen)}" for _time in range(30))]
    sh("ipset", "-exist", "restore", text="\n".join([LISTED, *lines, ""]))
    assert second_opinion.read(["X"]) == second_opinion.comparable(ipset.read(["X"]))
    assert second_opinion.read(["X"])["member"]
