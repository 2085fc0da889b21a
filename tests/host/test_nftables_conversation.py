# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Transactions by sockets that stay open, on this machine's kernel, in a namespace of its own."""

from __future__ import annotations

import os

import pytest
from support.processes.namespace import fresh
from support.tables.nft_example import CLUSTER_IPS, STATE, applied, elements

from kubenode.engine.errors import KernelError
from kubenode.engine.kernel import nftables
from kubenode.engine.kernel.nftables.conversation import Conversation

SETS = STATE["nft_set"]


@pytest.fixture(autouse=True)
def namespace() -> None:
    fresh()
    applied(STATE)


def sockets() -> set[str]:
    links = set()
    for name in os.listdir("/proc/self/fd"):
        try:
            links.add(os.readlink(f"/proc/self/fd/{name}"))
        except FileNotFoundError:
            continue  # that of the listing itself
    return {link for link in links if link.startswith("socket:")}


def test_each_transaction_uses_the_same_sockets() -> None:
    conversation = Conversation()
    before, others = conversation.generation(), sockets()
    opened = set()
    for number in range(3):
        (step,) = elements(CLUSTER_IPS, [(f"10.9.0.{number}", "tcp", "80")])
        assert conversation.apply([step], False, SETS).failed == []
        opened = opened or sockets() - others
        assert sockets() - others == opened
        assert conversation.generation() == before + number + 1
    assert len(opened) == 1
    conversation.close()
    assert not sockets() & opened


def test_refusal_of_one_transaction_is_not_that_of_the_next() -> None:
    conversation = Conversation()
    (step,) = elements(CLUSTER_IPS, [("10.9.0.1", "tcp", "80")])
    removal = step.inverse()
    for _ in range(2):
        assert [failure.step for failure in conversation.apply([removal], False, SETS).failed] == [removal]
        assert conversation.apply([step], False, SETS).failed == []
        assert conversation.apply([removal], False, SETS).failed == []
    assert nftables.read() == STATE


def test_failed_conversation_begins_again() -> None:
    conversation = Conversation()
    before = conversation.generation()
    (step,) = elements(CLUSTER_IPS, [("10.9.0.1", "tcp", "80")])
    assert conversation.apply([step], False, SETS).failed == []
    for each in (conversation._writer, conversation._reader):
        assert each
        each.close()
    with pytest.raises(KernelError, match="conversation with the kernel's nftables failed"):
        conversation.apply([step.inverse()], False, SETS)
    assert conversation.generation() == before + 1
    assert conversation.apply([step.inverse()], False, SETS).failed == []
    assert nftables.read() == STATE
