# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Turns in which a service proxy reads the details of virtual servers."""

from __future__ import annotations

import pytest

from kubenode.engine.proxy.ipvs_table import IpvsTable


@pytest.mark.parametrize("count", [0, 1, 32, 33, 1000])
def test_every_virtual_server_gets_a_turn(count: int) -> None:
    """A precise read takes at most 32 virtual servers a turn, and skips none when others come or go."""
    table, servers = IpvsTable(False), dict.fromkeys(range(count))
    for _round in range(2):
        turns = [table._turn(servers) for _turn in range(-(-count // 32))]
        assert sorted(key for turn in turns for key in turn) == list(servers)
        assert max(map(len, turns), default=0) <= 32
    assert table._turn(dict.fromkeys(range(3))) == [0, 1, 2]
