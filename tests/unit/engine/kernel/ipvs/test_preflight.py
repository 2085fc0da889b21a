# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The preflight with faults that only a fake kernel can have.

The cases are kube-proxy's TestCanUseIPVSProxier and TestCheckIPSetVersion.
``tests/kernel/test_ipvs_preflight.py`` asks a real kernel.
"""

from __future__ import annotations

import errno

import pytest
from support.fakes.ipvs import FakeKernel

from kubenode.engine.kernel.ipvs import apply, connection
from kubenode.engine.kernel.ipvs.attributes import Command
from kubenode.engine.kernel.ipvs.preflight import can_use_ipvs, ipset_problem
from kubenode.engine.model.ipvs import VirtualServer, VirtualServerKey
from kubenode.engine.plan import Step

IPSET = "ipset v6.0, protocol version: 6"


@pytest.fixture
def kernel(monkeypatch: pytest.MonkeyPatch) -> FakeKernel:
    fake = FakeKernel()
    monkeypatch.setattr(connection, "GenericSocket", fake)
    return fake


@pytest.mark.parametrize("scheduler", ["", "rr", "mh"])
def test_a_fit_node(kernel: FakeKernel, scheduler: str) -> None:
    assert can_use_ipvs(scheduler, IPSET) == []
    assert kernel.services == {}
    assert kernel.asked.count(Command.NEW_SERVICE) == 1


@pytest.mark.parametrize(
    ("version", "problem"),
    [
        (None, "ipset cannot be run: install ipset 6.0 or newer"),
        ("ipset v4.3.0, protocol version: 4", "ipset is version 4.3, expected 6.0 or newer"),
    ],
)
def test_ipset_is_checked_separately(kernel: FakeKernel, version: str | None, problem: str) -> None:
    assert can_use_ipvs("rr", version) == [problem]


@pytest.mark.parametrize(
    ("command", "code", "problem"),
    [
        (Command.GET_SERVICE, errno.ENOMEM, "the conversation with the kernel's IPVS failed: scripted"),
        (
            Command.GET_SERVICE,
            errno.EPERM,
            "IPVS may not be used: the capability CAP_NET_ADMIN is needed (run as root)",
        ),
        (
            Command.NEW_SERVICE,
            errno.ENOENT,
            "virtual server tcp 198.51.100.0:20000: scheduler rr is not available (kernel module ip_vs_rr)",
        ),
        (
            Command.NEW_SERVICE,
            errno.EPERM,
            "virtual server tcp 198.51.100.0:20000: the capability CAP_NET_ADMIN is needed (run as root)",
        ),
        (
            Command.DEL_SERVICE,
            errno.ENOMEM,
            "virtual server tcp 198.51.100.0:20000: the kernel has no memory left for it",
        ),
    ],
)
def test_each_check_may_fail(kernel: FakeKernel, command: int, code: int, problem: str) -> None:
    kernel.faults[command] = code
    assert can_use_ipvs("", IPSET) == [problem]


def test_kernel_that_does_not_list_a_probe_is_unfit(kernel: FakeKernel) -> None:
    kernel.forgetful = True
    (problem,) = can_use_ipvs("", IPSET)
    assert problem == "the kernel took a virtual server but does not list it: its ip_vs does not work"
    assert kernel.services == {}


def test_a_virtual_server_with_this_scheduler_is_proof_enough(kernel: FakeKernel) -> None:
    apply([Step("virtual_server", VirtualServerKey("udp", "10.96.0.10", 53, 4), None, VirtualServer("mh"))])
    kernel.asked.clear()
    assert can_use_ipvs("mh", IPSET) == []
    assert Command.NEW_SERVICE not in kernel.asked


def test_probe_address_in_use_is_left_alone(kernel: FakeKernel) -> None:
    used = VirtualServerKey("tcp", "198.51.100.0", 20000, 4)
    apply([Step("virtual_server", used, None, VirtualServer("wlc"))])
    before = dict(kernel.services)
    assert can_use_ipvs("rr", IPSET) == []
    assert kernel.services == before


@pytest.mark.parametrize("version", ["4.0", "5.1", "5.1.2"])
def test_an_old_ipset(version: str) -> None:
    assert ipset_problem(version) == f"ipset is version {version[:3]}, expected 6.0 or newer"


@pytest.mark.parametrize("version", ["7", "total junk", ""])
def test_an_unreadable_ipset_version(version: str) -> None:
    assert ipset_problem(version) == f"ipset's version cannot be read from {version!r}, expected 6.0 or newer"


@pytest.mark.parametrize(
    "version", ["6.0", "6.1", "6.19", "7.0", "8.1.2", "9.3.4.0", "ipset v7.17, protocol version: 7\n"]
)
def test_a_new_enough_ipset(version: str) -> None:
    assert ipset_problem(version) == ""
