# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Missing features of a kernel, by the messages of the probe that it refuses."""

from __future__ import annotations

import errno
from collections.abc import Sequence
from importlib import import_module
from typing import Any

import pytest

from kubenode.engine.errors import MissingError
from kubenode.engine.kernel.nftables.probe import CONCATENATED_NETWORKS, missing_features
from kubenode.engine.kernel.nftables.protocol import NEWSET, NEWTABLE
from kubenode.engine.kernel.nftables.transaction import FORBIDDEN, MISSING, Refusal

write: Any = import_module("kubenode.engine.kernel.nftables.write")


def refusing(monkeypatch: pytest.MonkeyPatch, command: int, family: int, code: int) -> None:
    """Let the kernel refuse the messages of one command for one address family; then it refuses those that follow."""

    def transact(batch: Sequence[bytes], _generation: object, rehearse: bool, _channel: object) -> list[Refusal]:
        assert rehearse
        numbers = [number for number, raw in enumerate(batch) if raw[4] == command and raw[16] == family]
        return [Refusal(number, code, "", 0) for number in numbers]

    monkeypatch.setattr(write, "transact", transact)


def test_kernel_before_5_6_lacks_concatenated_networks(monkeypatch: pytest.MonkeyPatch) -> None:
    """nf_tables_newset() refuses the flags NFT_SET_INTERVAL and NFT_SET_CONCAT together as unknown."""
    refusing(monkeypatch, NEWSET, 2, errno.EINVAL)
    assert missing_features() == [CONCATENATED_NETWORKS]


def test_missing_family_is_named_once(monkeypatch: pytest.MonkeyPatch) -> None:
    refusing(monkeypatch, NEWTABLE, 10, errno.EOPNOTSUPP)
    assert missing_features() == ["nf_tables for family ip6"]


@pytest.mark.parametrize("reason", [MISSING, FORBIDDEN])
def test_missing_subsystem_is_named_and_missing_right_raises(monkeypatch: pytest.MonkeyPatch, reason: str) -> None:
    def transact(*_arguments: object) -> list[Refusal]:
        raise MissingError(reason)

    monkeypatch.setattr(write, "transact", transact)
    if reason == MISSING:
        assert missing_features() == ["nf_tables"]
        return
    with pytest.raises(MissingError, match="CAP_NET_ADMIN"):
        missing_features()
