# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The kernel's bytes, decoded by the engine and by pyroute2: where they agree, and where pyroute2 reads wrong.

A new release of pyroute2 that reads right fails the tests named ``test_pyroute2_...``. Then compare these fields, too.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from support.second_opinion import ipset as ipset_opinion
from support.second_opinion import ipvs as ipvs_opinion
from support.tables import ipvs_tables

from kubenode.engine.kernel.ipset import dump
from kubenode.engine.kernel.ipset.protocol import CMD_LIST, CMD_SAVE
from kubenode.engine.kernel.ipvs.codec import body, pack_real, pack_server, unpack_real, unpack_server
from kubenode.engine.model.ipset import IPSet, MemberKey

RECORDED = json.loads((Path(__file__).parent / "ipvs/recorded.json").read_text())
SERVERS = [bytes.fromhex(entry["message"]) for entry in RECORDED["virtual servers"]]
REALS = [
    (bytes.fromhex(entry["message"]), bytes.fromhex(real))
    for entry in RECORDED["virtual servers"]
    for real in entry["real servers"]
]
GENERIC_HEADER = bytes((1, 1, 0, 0))
# Answers of Linux 6.1 to IPSET_CMD_LIST and IPSET_CMD_SAVE for `create A hash:ip` with the member 10.0.0.1: they are
# the same, except for the message's type.
PLAIN_SET = bytes.fromhex(
    "02000000050001000600000006000200410000000c000300686173683a697000050005000200000005000400050000003c00"
    "078008001240000004000800134000010000050015000c0000000800114072518765080019400000000008001a40000000e8"
    "080018400000000114000880100007800c000180080001000a000001"
)
# `create M hash:ip,mark markmask 0xff00`, with the member 10.0.0.1,0x700.
MARKED_SET = bytes.fromhex(
    "020000000500010006000000060002004d00000011000300686173683a69702c6d61726b0000000005000500020000000500"
    "040003000000440007800800124000000400080013400001000008000b0000ff0000050015000c00000008001140366d2c10"
    "080019400000000008001a40000000f008001840000000011c000880180007800c000180080001000a00000108000a400000"
    "0700"
)


class Recording:
    """A netlink socket that answers every dump with one recorded message."""

    def __init__(self, payload: bytes) -> None:
        self._payload = payload

    def __enter__(self) -> Recording:
        return self

    def __exit__(self, *_details: object) -> None:
        pass

    def dump(self, _request: bytes) -> list[bytes]:
        return [self._payload]


@given(ipvs_tables.tables())
def test_packed_ipvs_table_reads_as_with_pyroute2(table: dict[str, dict[Any, Any]]) -> None:
    servers = dict(
        ipvs_opinion.virtual_server(ipvs_opinion.decoded(GENERIC_HEADER + pack_server(key, value), "SERVICE"))
        for key, value in table["virtual_server"].items()
    )
    reals = dict(
        ipvs_opinion.real_server(key.server, ipvs_opinion.decoded(GENERIC_HEADER + pack_real(key, value), "DEST"))
        for key, value in table["real_server"].items()
    )
    assert {"virtual_server": servers, "real_server": reals} == ipvs_opinion.comparable(table)


def test_recorded_ipvs_messages_read_as_with_pyroute2() -> None:
    engine = {
        "virtual_server": dict(unpack_server(body(raw)) for raw in SERVERS),
        "real_server": dict(unpack_real(unpack_server(body(server))[0], body(raw)) for server, raw in REALS),
    }
    opinion = {
        "virtual_server": dict(ipvs_opinion.virtual_server(ipvs_opinion.decoded(raw, "SERVICE")) for raw in SERVERS),
        "real_server": dict(
            ipvs_opinion.real_server(unpack_server(body(server))[0], ipvs_opinion.decoded(raw, "DEST"))
            for server, raw in REALS
        ),
    }
    assert opinion == ipvs_opinion.comparable(engine)


def test_pyroute2_reads_ipv6_prefix_length_as_address() -> None:
    read = [
        (value.netmask, ipvs_opinion.decoded(raw, "SERVICE")["NETMASK"])
        for raw, (key, value) in ((raw, unpack_server(body(raw))) for raw in SERVERS)
        if key.family == 6
    ]
    assert read == [(64, "64.0.0.0"), (48, "48.0.0.0")]


def test_pyroute2_reads_tunnel_port_in_machine_order() -> None:
    read = {
        (unpack_real(unpack_server(body(server))[0], body(raw))[1].tunnel_port, decoded["TUN_PORT"])
        for server, raw, decoded in ((server, raw, ipvs_opinion.decoded(raw, "DEST")) for server, raw in REALS)
    }
    assert read == {(0, 0), (6080, 49175)}


def test_recorded_set_reads_as_with_pyroute2(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dump, "NetlinkSocket", lambda _protocol: Recording(PLAIN_SET))
    engine = dump.read(["A"])
    assert engine["member"] == {MemberKey("A", "10.0.0.1"): ""}
    assert ipset_opinion.state([ipset_opinion.decoded(PLAIN_SET, CMD_LIST)]) == engine


def test_pyroute2_reads_header_of_saved_set_as_member(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dump, "NetlinkSocket", lambda _protocol: Recording(PLAIN_SET))
    header: IPSet = dump.read(["A"])["set"]["A"]
    data = ipset_opinion.decoded(PLAIN_SET, CMD_SAVE).get("IPSET_ATTR_DATA")
    assert (header.option("hashsize"), data.get("IPSET_ATTR_HASHSIZE")) == ("1024", None)
    assert data.get("IPSET_ATTR_NAMEREF") == int(header.option("maxelem"))


def test_pyroute2_reads_markmask_in_network_order() -> None:
    """The engine leaves this type to the tool ipset."""
    data = ipset_opinion.decoded(MARKED_SET, CMD_LIST).get("IPSET_ATTR_DATA")
    assert data.get("IPSET_ATTR_MARKMASK") == 0x00FF0000
