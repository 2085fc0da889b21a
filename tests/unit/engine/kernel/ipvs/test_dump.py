# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Comparison of two dumps of virtual servers: only keys count."""

from __future__ import annotations

import pytest

from kubenode.engine.kernel.genetlink import HEADER_BYTES
from kubenode.engine.kernel.ipvs.codec import pack_server
from kubenode.engine.kernel.ipvs.dump import same_servers
from kubenode.engine.model.ipvs import VirtualServer, VirtualServerKey

KEYS = [
    VirtualServerKey("tcp", "10.96.0.1", 80, 4),
    VirtualServerKey("udp", "10.96.0.1", 80, 4),
    VirtualServerKey("tcp", "10.96.0.1", 443, 4),
    VirtualServerKey("tcp", "fd00::1", 80, 6),
    VirtualServerKey("tcp", "fd00::1", 443, 6),
    VirtualServerKey("fwmark", "", 7, 4),
    VirtualServerKey("fwmark", "", 8, 4),
]


def payload(key: VirtualServerKey, value: VirtualServer = VirtualServer()) -> bytes:  # noqa: B008
    return bytes(HEADER_BYTES) + pack_server(key, value)


def test_order_and_settings_do_not_make_servers_differ() -> None:
    dump = [payload(key) for key in KEYS]
    assert same_servers(dump, list(dump))
    assert same_servers(dump, dump[::-1])
    assert same_servers(dump, [payload(key, VirtualServer(scheduler="wlc")) for key in KEYS])


@pytest.mark.parametrize("absent", KEYS)
def test_a_missing_server_makes_dumps_differ(absent: VirtualServerKey) -> None:
    dump = [payload(key) for key in KEYS]
    assert not same_servers(dump, [payload(key) for key in KEYS if key != absent])


@pytest.mark.parametrize("other", KEYS[1:])
def test_each_part_of_a_key_makes_dumps_differ(other: VirtualServerKey) -> None:
    assert not same_servers([payload(KEYS[0])], [payload(other)])
