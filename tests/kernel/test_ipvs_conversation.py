# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Writes by one socket that stays open, also after ip_vs was unloaded and loaded anew."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest
from support.processes.kernel_modules import no_module_loads, unload_ip_vs
from support.processes.namespace import sh

from kubenode.engine.errors import MissingError
from kubenode.engine.kernel import ipvs
from kubenode.engine.kernel.ipvs.conversation import Conversation
from kubenode.engine.model.ipvs import RealServer, RealServerKey, VirtualServer, VirtualServerKey
from kubenode.engine.model.step import Step

pytestmark = pytest.mark.usefixtures("empty_ipvs")
WEB = VirtualServerKey("tcp", "10.96.0.10", 80, 4)
POD = RealServerKey(WEB, "10.244.0.1", 8080)
CREATED = [Step("virtual_server", WEB, None, VirtualServer()), Step("real_server", POD, None, RealServer(1))]
REMOVED = [step.inverse() for step in reversed(CREATED)]


@pytest.fixture
def conversation() -> Iterator[Conversation]:
    begun = Conversation()
    yield begun
    begun.close()


def sockets() -> set[str]:
    links = (f"/proc/self/fd/{name}" for name in os.listdir("/proc/self/fd"))
    return {os.readlink(link) for link in links if os.path.islink(link) and "socket:" in os.readlink(link)}


def done(conversation: Conversation, steps: list[Step]) -> None:
    result = conversation.apply(steps, keep_going=True)
    assert (result.done, result.failed) == (steps, [])


def number() -> int:
    with ipvs.connect() as socket:
        return socket._family


def test_each_write_uses_the_same_socket(conversation: Conversation) -> None:
    others, opened = sockets(), set()
    for _ in range(3):
        done(conversation, CREATED)
        assert list(ipvs.read()["real_server"]) == [POD]
        done(conversation, REMOVED)
        opened = opened or sockets() - others
        assert sockets() - others == opened
    assert len(opened) == 1
    conversation.close()
    assert not sockets() & opened


def test_refusals_are_those_of_the_steps(conversation: Conversation) -> None:
    """A real server that is absent is refused as ENOENT, like every message of a family that is gone."""
    done(conversation, CREATED[:1])
    done(conversation, REMOVED[:1])
    done(conversation, [Step("real_server", POD, RealServer(1), RealServer(2))])
    unknown = Step("virtual_server", WEB._replace(port=81), None, VirtualServer("absent"))
    (failure,) = conversation.apply([unknown], keep_going=True).failed
    assert "scheduler absent is not available" in failure.message
    assert ipvs.read()["real_server"] == {POD: RealServer(2)}


def test_module_that_was_loaded_anew_gets_the_steps(conversation: Conversation) -> None:
    done(conversation, CREATED)
    done(conversation, REMOVED)
    before = number()
    unload_ip_vs()
    sh("modprobe", "-a", "ip_vs", "ip_vs_rr")
    assert number() != before
    done(conversation, CREATED)
    assert list(ipvs.read()["real_server"]) == [POD]
    unloaded = number()
    done(conversation, REMOVED)
    assert number() == unloaded
    assert ipvs.read()["virtual_server"] == {}


def test_removal_after_the_module_was_loaded_anew(conversation: Conversation) -> None:
    """The kernel refuses it as ENOENT, which must not count as removed already."""
    done(conversation, CREATED)
    done(conversation, REMOVED)
    unload_ip_vs()
    sh("modprobe", "-a", "ip_vs", "ip_vs_rr")
    assert ipvs.apply(CREATED).failed == []
    done(conversation, REMOVED)
    assert ipvs.read()["virtual_server"] == {}


def test_module_that_is_gone_is_named(conversation: Conversation) -> None:
    done(conversation, CREATED)
    done(conversation, REMOVED)
    unload_ip_vs()
    with no_module_loads(), pytest.raises(MissingError, match="ip_vs is not available: load the kernel module"):
        conversation.apply(CREATED, keep_going=True)
    sh("modprobe", "-a", "ip_vs", "ip_vs_rr")
    done(conversation, CREATED)
