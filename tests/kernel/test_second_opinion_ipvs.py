# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The kernel's IPVS table, read by the engine and by pyroute2."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from support import properties  # noqa: F401
from support.properties import of_a_kernel
from support.second_opinion import ipvs as second_opinion
from support.tables import ipvs_tables
from support.tables.ipvs_tables import WEB, write

from kubenode.engine.kernel import ipvs
from kubenode.engine.kernel.ipvs import control
from kubenode.engine.model.ipvs import RealServer, RealServerKey, VirtualServer, VirtualServerKey

pytestmark = pytest.mark.usefixtures("empty_ipvs")


@of_a_kernel(40)
@given(ipvs_tables.tables())
def test_ipvs_table_reads_as_with_pyroute2(state: dict[str, dict[Any, Any]]) -> None:
    control.flush()
    write(state)
    assert second_opinion.read() == second_opinion.comparable(ipvs.read(precise=True))


def test_large_ipvs_table_reads_as_with_pyroute2() -> None:
    servers = {VirtualServerKey("tcp", f"10.96.1.{number}", 80, 4): VirtualServer() for number in range(1, 40)}
    reals = {
        RealServerKey(server, f"10.244.{number}.1", 8080): RealServer(number)
        for server in servers
        for number in range(20)
    }
    many = {RealServerKey(WEB, f"10.244.{number >> 8}.{number & 255}", 80): RealServer() for number in range(1, 1000)}
    write({"virtual_server": {**servers, WEB: VirtualServer("mh")}, "real_server": {**reals, **many}})
    assert second_opinion.read() == second_opinion.comparable(ipvs.read())
