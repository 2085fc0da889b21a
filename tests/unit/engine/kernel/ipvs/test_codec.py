# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The codec: pack and unpack are inverse, and a real kernel's recorded messages match ipvsadm's commands."""

from __future__ import annotations

import json
import struct
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from support.tables import ipvs_tables, ipvsadm

from kubenode.engine.kernel.ipvs.attributes import Dest, Service
from kubenode.engine.kernel.ipvs.codec import (
    body,
    pack_real,
    pack_server,
    unpack_connections,
    unpack_real,
    unpack_server,
)
from kubenode.engine.kernel.ipvs.limits import unfit
from kubenode.engine.kernel.netlink import attributes
from kubenode.engine.model.ipvs import HASHED, RealServer, RealServerKey, VirtualServer, VirtualServerKey

RECORDED = json.loads((Path(__file__).parent / "recorded.json").read_text())
WEB = VirtualServerKey("tcp", "10.96.0.10", 80, 4)
WEB6 = VirtualServerKey("tcp", "2001:db8::10", 80, 6)


def recorded() -> dict[str, dict[Any, Any]]:
    """Return the decoded recording."""
    servers, reals = {}, {}
    for entry in RECORDED["virtual servers"]:
        key, value = unpack_server(body(bytes.fromhex(entry["message"])))
        servers[key] = value
        reals.update(unpack_real(key, body(bytes.fromhex(raw))) for raw in entry["real servers"])
    return {"virtual_server": servers, "real_server": reals}


@given(ipvs_tables.tables())
def test_unpack_undoes_pack(table: dict[str, dict[Any, Any]]) -> None:
    for key, value in table["virtual_server"].items():
        assert unpack_server(attributes(pack_server(key, value), 4)) == (key, value)
    for key, value in table["real_server"].items():
        assert unpack_real(key.server, attributes(pack_real(key, value), 4)) == (key, value)


def test_recorded_messages() -> None:
    """The expected values were written by hand from the recording's ipvsadm lines."""
    state = recorded()
    sip = VirtualServerKey("udp", "10.96.0.10", 5060, 4)
    sctp = VirtualServerKey("sctp", "2001:db8::10", 9, 6)
    mark = VirtualServerKey("fwmark", "", 7, 4)
    assert state["virtual_server"] == {
        WEB: VirtualServer("rr"),
        sip: VirtualServer("wlc", 0x5, 30, 20, "sip"),
        sctp: VirtualServer("sh", 0x19, 10800, 64),
        mark: VirtualServer("mh", 0x11, 300, 0),
        VirtualServerKey("fwmark", "", 4294967295, 6): VirtualServer("wrr", 0x1, 60, 48),
    }
    assert state["real_server"] == {
        RealServerKey(WEB, "10.244.1.5", 8080): RealServer(100, "masquerade", 20, 10),
        RealServerKey(WEB, "10.244.2.5", 80): RealServer(1, "tunnel", 0, 0, "gue", 6080, 2),
        RealServerKey(WEB, "2001:db8:1::5", 80): RealServer(0, "tunnel", 0, 0, "gre", 0, 1),
        RealServerKey(sctp, "2001:db8:1::5", 9): RealServer(2147483647, "direct"),
        RealServerKey(mark, "192.0.2.7", 0): RealServer(3, "direct"),
    }


def test_recorded_messages_agree_with_the_second_parser() -> None:
    servers, reals = ipvsadm.parse("\n".join(line.partition(" -x ")[0] for line in RECORDED["ipvsadm"]))
    state = recorded()
    assert {tuple(key) for key in state["virtual_server"]} == set(servers)
    assert {(tuple(key.server), key.address, key.port) for key in state["real_server"]} == set(reals)
    for key, value in state["virtual_server"].items():
        given_ = servers[tuple(key)]
        assert (value.scheduler, value.flags, value.timeout) == (
            given_["scheduler"],
            given_["flags"],
            given_["timeout"],
        )


def test_an_old_kernel_gives_no_address_family_and_no_tunnel() -> None:
    key, value = RealServerKey(WEB, "10.244.1.5", 8080), RealServer(7)
    fields = attributes(pack_real(key, value), 4)
    for number in (Dest.ADDR_FAMILY, Dest.TUN_TYPE, Dest.TUN_PORT, Dest.TUN_FLAGS):
        del fields[number]
    fields[Dest.ADDR] = fields[Dest.ADDR].ljust(16, b"\0")  # the kernel always sends 16 bytes
    assert unpack_real(WEB, fields) == (key, value)
    six = RealServerKey(WEB6, "2001:db8:1::5", 8080)
    fields = attributes(pack_real(six, value), 4)
    del fields[Dest.ADDR_FAMILY]
    assert unpack_real(WEB6, fields) == (six, value)


def test_packed_bytes_match_the_kernel() -> None:
    """Errors of other libraries: byte order, netmasks of both families, missing attributes, the hashed flag."""
    fields = attributes(pack_server(WEB, VirtualServer("rr", HASHED | 1, 300, 0)), 4)
    assert fields[Service.PORT] == b"\0\x50"
    assert fields[Service.NETMASK] == b"\0\0\0\0"
    assert fields[Service.FLAGS] == struct.pack("=II", 1, 0xFFFFFFFD)
    assert attributes(pack_server(WEB, VirtualServer(netmask=20)), 4)[Service.NETMASK] == b"\xff\xff\xf0\0"
    assert attributes(pack_server(WEB6, VirtualServer(netmask=128)), 4)[Service.NETMASK] == struct.pack("=I", 128)
    mark = attributes(pack_server(VirtualServerKey("fwmark", "", 7, 6), VirtualServer(netmask=128)), 4)
    assert set(mark) == {
        Service.AF,
        Service.FWMARK,
        Service.SCHED_NAME,
        Service.FLAGS,
        Service.TIMEOUT,
        Service.NETMASK,
    }
    tunnel = RealServer(1, "tunnel", 0, 0, "gue", 6080, 2)
    assert attributes(pack_real(RealServerKey(WEB, "10.244.1.5", 80), tunnel), 4)[Dest.TUN_PORT] == b"\x17\xc0"


def test_a_netmask_with_holes_is_read_as_its_leading_ones() -> None:
    fields = attributes(pack_server(WEB, VirtualServer()), 4)
    fields[Service.NETMASK] = b"\xff\x00\xff\x00"
    assert unpack_server(fields)[1].netmask == 8


def test_unknown_attributes_of_a_newer_kernel_are_no_error() -> None:
    fields = attributes(pack_server(WEB, VirtualServer()), 4)
    fields[Service.PROTOCOL] = struct.pack("=H", 33)
    assert unpack_server(fields)[0].protocol == "33"
    real = attributes(pack_real(RealServerKey(WEB, "10.244.1.5", 80), RealServer()), 4)
    real[Dest.FWD_METHOD] = struct.pack("=I", 7)
    real[Dest.TUN_TYPE] = b"\x09"
    value = unpack_real(WEB, real)[1]
    assert (value.forward, value.tunnel_type) == ("7", "9")


def test_connections_of_a_recorded_real_server() -> None:
    message = RECORDED["virtual servers"][0]["real servers"][0]
    assert unpack_connections(body(bytes.fromhex(message))) == (0, 0, 0)


REAL = RealServerKey(WEB, "10.244.1.5", 8080)
BAD = [
    (
        WEB._replace(port=70000),
        VirtualServer(),
        "virtual server tcp 10.96.0.10:70000: port is 70000, expected a number from 0 to 65535",
    ),
    (WEB._replace(address="2001:db8::1"), VirtualServer(), "address is '2001:db8::1', expected an IPv4 address"),
    (WEB._replace(protocol="icmp"), VirtualServer(), "protocol is 'icmp', expected one of tcp, udp, sctp, fwmark"),
    (
        VirtualServerKey("fwmark", "", 2**32, 4),
        VirtualServer(),
        "mark is 4294967296, expected a number from 0 to 4294967295",
    ),
    (WEB, VirtualServer(netmask=33), "netmask is 33, expected a number from 0 to 32"),
    (WEB, VirtualServer(netmask=-1), "netmask is -1, expected a number from 0 to 32"),
    (WEB6, VirtualServer(netmask=-1), "netmask is -1, expected a number from 0 to 128"),
    (WEB, VirtualServer(timeout=4294968), "timeout is 4294968, expected a number from 0 to 4294967"),
    (WEB, VirtualServer(flags=2**32), "flags is 4294967296, expected a number from 0 to 4294967295"),
    (WEB, VirtualServer(flags=-1), "flags is -1, expected a number from 0 to 4294967295"),
    (WEB, VirtualServer("r\u00f6"), "scheduler is 'r\u00f6', expected an ASCII name of at most 15 characters"),
    (
        WEB,
        VirtualServer("rr", pe_name="sixteen-letters-"),
        "pe_name is 'sixteen-letters-', expected an ASCII name of at most 15 characters",
    ),
    (REAL._replace(address="10.244.1"), RealServer(), "address is '10.244.1', expected an IP address"),
    (REAL._replace(port=-1), RealServer(), "port is -1, expected a number from 0 to 65535"),
    (REAL, RealServer(2**31), "weight is 2147483648, expected a number from 0 to 2147483647"),
    (REAL, RealServer(forward="nat"), "forward is 'nat', expected one of masquerade, local, tunnel, direct, bypass"),
    (REAL, RealServer(upper_threshold=2**32), "upper_threshold is 4294967296, expected a number from 0 to 4294967295"),
    (REAL, RealServer(lower_threshold=-1), "lower_threshold is -1, expected a number from 0 to 4294967295"),
    (REAL, RealServer(tunnel_type="vxlan"), "tunnel_type is 'vxlan', expected one of ipip, gue, gre"),
    (REAL, RealServer(tunnel_port=65536), "tunnel_port is 65536, expected a number from 0 to 65535"),
    (REAL, RealServer(tunnel_flags=65536), "tunnel_flags is 65536, expected a number from 0 to 65535"),
]


@pytest.mark.parametrize(("key", "value", "words"), BAD, ids=[words for _key, _value, words in BAD])
def test_value_that_does_not_fit_is_named(key: Any, value: Any, words: str) -> None:
    kind = "real_server" if isinstance(value, RealServer) else "virtual_server"
    with pytest.raises((struct.error, KeyError, OSError, TypeError, ValueError)):
        pack_real(key, value) if kind == "real_server" else pack_server(key, value)
    assert unfit(kind, key, value).endswith(words)
