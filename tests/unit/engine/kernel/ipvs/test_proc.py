# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""``/proc/net/ip_vs``: a real kernel's text, and lines that are easy to misread."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from kubenode.engine.kernel.ipvs.proc import UNKNOWN_FAMILY, Records
from kubenode.engine.model.ipvs import VirtualServerKey

RECORDED = json.loads((Path(__file__).parent / "recorded.json").read_text())
HEADER = (
    "IP Virtual Server version 1.2.1 (size=4096)\nProt LocalAddress:Port Scheduler Flags\n  -> RemoteAddress:Port"
    " Forward\n"
)
Read = list[tuple[VirtualServerKey, str, int, str, str, str, str]]
WEB = VirtualServerKey("tcp", "10.96.0.10", 80, 4)


def real_servers(text: str) -> Read:
    return list(Records().real_servers(text))


def test_recorded_text() -> None:
    sctp = VirtualServerKey("sctp", "2001:db8::10", 9, 6)
    assert real_servers("\n".join(RECORDED["proc"]) + "\n") == [
        (WEB, "2001:db8:1::5", 80, "Tunnel", "0", "0", "0"),
        (WEB, "10.244.2.5", 80, "Tunnel", "1", "0", "0"),
        (WEB, "10.244.1.5", 8080, "Masq", "100", "0", "0"),
        (sctp, "2001:db8:1::5", 9, "Route", "2147483647", "0", "0"),
        (VirtualServerKey("fwmark", "", 7, UNKNOWN_FAMILY), "192.0.2.7", 0, "Route", "3", "0", "0"),
    ]


def test_every_word_and_number() -> None:
    text = HEADER + (
        "UDP  0A60000A:0035 rr ops \n"
        "  -> 0AF40105:0035      Local   0      4294967295 7         \n"
        "TCP  [2001:0db8:0000:0000:0000:0000:0000:0010]:FFFF rr persistent 1080000 40000000\n"
        "  -> [fd00:0000:0000:0000:0000:ffff:0a00:0001]:0001      Route   12345678 1234567890123 0         \n"
        "FWM  FFFFFFFF mh ops persistent 30000 00000000\n"
        "  -> FFFFFFFE:0000      Masq    1      0          0         \n"
    )
    assert real_servers(text) == [
        (VirtualServerKey("udp", "10.96.0.10", 53, 4), "10.244.1.5", 53, "Local", "0", "4294967295", "7"),
        (
            VirtualServerKey("tcp", "2001:db8::10", 65535, 6),
            "fd00::ffff:a00:1",
            1,
            "Route",
            "12345678",
            "1234567890123",
            "0",
        ),
        (VirtualServerKey("fwmark", "", 4294967295, UNKNOWN_FAMILY), "255.255.255.254", 0, "Masq", "1", "0", "0"),
    ]


@pytest.mark.parametrize("text", ["", HEADER, HEADER + "TCP  0A60000A:0050 rr  \n"])
def test_empty_table_is_read(text: str) -> None:
    assert real_servers(text) == []


@pytest.mark.parametrize(
    "line",
    [
        "  -> 0AF40105:0035      Masq    1      0          0         ",
        "TCP  0A60000A:0050 rr\n  -> 0AF40105:0035      Masq    1",
        "TCP  0A60000A:0050 rr\n  -> 0AF401:0035      Masq    1      0          0",
        "GRE  0A60000A:0050 rr",
        "TCP",
    ],
)
def test_unexpected_text_is_an_error(line: str) -> None:
    with pytest.raises((ValueError, KeyError, OSError)):
        real_servers(HEADER + line + "\n")


def test_chunks_split_between_lines_keep_records_and_counts() -> None:
    text = "\n".join(RECORDED["proc"]) + "\n"
    whole = Records()
    expected = list(whole.real_servers(text))
    assert set(whole.seen.values()) == {1}
    assert WEB in whole.seen
    lines = text.splitlines(keepends=True)
    for cut in range(len(lines) + 1):
        records = Records()
        reals = list(records.real_servers("".join(lines[:cut]))) + list(records.real_servers("".join(lines[cut:])))
        assert reals == expected
        assert records.seen == whole.seen


def test_empty_and_repeated_virtual_servers_are_counted() -> None:
    records = Records()
    line = "TCP  0A60000A:0050 rr  \n"
    assert list(records.real_servers(HEADER + line)) == []
    assert records.seen == {WEB: 1}
    assert list(records.real_servers(line)) == []
    assert records.seen == {WEB: 2}
