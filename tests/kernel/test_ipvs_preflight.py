# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The preflight on a real kernel (kube-proxy's TestCanUseIPVSProxier; ``tests/unit`` has the cases with faults)."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator

import pytest
from support.processes.kernel_modules import no_module_loads
from support.tables.ipvs_tables import SCHEDULERS

from kubenode.engine.kernel import ipvs
from kubenode.engine.kernel.ipvs import control
from kubenode.engine.kernel.ipvs.preflight import can_use_ipvs
from kubenode.engine.model.ipvs import VirtualServer, VirtualServerKey
from kubenode.engine.plan import Step

IPSET = "ipset v6.0, protocol version: 6"
NOTHING = {"virtual_server": {}, "real_server": {}}


@pytest.fixture(autouse=True)
def empty_table() -> Iterator[None]:
    control.flush()
    yield
    control.flush()


@pytest.mark.parametrize("scheduler", ["", *SCHEDULERS])
def test_every_scheduler_passes_without_leftovers(scheduler: str) -> None:
    assert can_use_ipvs(scheduler, IPSET) == []
    assert ipvs.read() == NOTHING


def test_the_installed_ipset_is_new_enough() -> None:
    version = subprocess.run(["ipset", "--version"], check=True, capture_output=True, text=True).stdout
    assert can_use_ipvs("", version) == []


def test_every_problem_is_reported() -> None:
    assert can_use_ipvs("nosuch", "ipset v4.3.0, protocol version: 4") == [
        "ipset is version 4.3, expected 6.0 or newer",
        "virtual server tcp 198.51.100.0:20000: scheduler nosuch is not available (kernel module ip_vs_nosuch)",
    ]
    assert ipvs.read() == NOTHING


def test_other_virtual_servers_stay_as_they_are() -> None:
    used = VirtualServerKey("tcp", "198.51.100.0", 20000, 4)
    ipvs.apply([Step("virtual_server", used, None, VirtualServer("wlc"))])
    assert can_use_ipvs("mh", IPSET) == []
    assert ipvs.read()["virtual_server"] == {used: VirtualServer("wlc")}


def test_scheduler_in_use_passes_without_loadable_module() -> None:
    key = VirtualServerKey("udp", "10.96.0.10", 53, 4)
    ipvs.apply([Step("virtual_server", key, None, VirtualServer("sed"))])
    with no_module_loads():
        assert can_use_ipvs("sed", IPSET) == []


def test_missing_module_is_reported() -> None:
    """The scheduler exists, but its module cannot be loaded. Only a live test sees that; a list of names does not."""
    subprocess.run(["modprobe", "-r", "ip_vs_fo"], check=True)
    with no_module_loads():
        (problem,) = can_use_ipvs("fo", IPSET)
    assert problem == "virtual server tcp 198.51.100.0:20000: scheduler fo is not available (kernel module ip_vs_fo)"
