# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Statements as expressions: recorded bytes, round trips by property, and hostile bytes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.nftables import FAMILIES, statements

from kubenode.engine.kernel.netlink import attribute
from kubenode.engine.kernel.nftables.expressions import VerdictData, make, pack
from kubenode.engine.kernel.nftables.statements import decode, encode
from kubenode.engine.model import nftables as model
from kubenode.engine.model.nftables import (
    Bits,
    Compare,
    DestinationNat,
    Foreign,
    Lookup,
    Random,
    Reject,
    Statement,
    Verdict,
)

# Rules as nft 1.0.6 wrote them and Linux 6.18 reported them: family, text, statements, expressions.
RECORDED = json.loads(Path(__file__).with_name("recorded.json").read_text())


def _statement(raw: list[Any]) -> Statement:
    kind, *values = (tuple(value) if isinstance(value, list) else value for value in raw)
    made: Statement = getattr(model, kind)(*values)
    return made


@pytest.mark.parametrize("case", RECORDED, ids=lambda case: case["text"])
def test_recorded_rule_is_read_and_written_alike(case: dict[str, Any]) -> None:
    wanted = tuple(_statement(raw) for raw in case["statements"])
    assert decode(case["family"], bytes.fromhex(case["expressions"])) == wanted
    assert decode(case["family"], encode(case["family"], wanted)) == wanted


@given(FAMILIES.flatmap(lambda family: st.tuples(st.just(family), st.lists(statements(family), max_size=6).map(tuple))))
def test_decoding_undoes_encoding(case: tuple[str, tuple[Statement, ...]]) -> None:
    family, wanted = case
    assert decode(family, encode(family, wanted)) == wanted


@given(FAMILIES, st.binary(max_size=200))
def test_any_bytes_are_decoded_and_kept(family: str, raw: bytes) -> None:
    decoded = decode(family, raw)
    assert encode(family, decoded) == raw or not any(isinstance(each, Foreign) for each in decoded)


@given(st.sampled_from(RECORDED), st.integers(0, 1000), st.integers(0, 255))
def test_changed_byte_gives_statements_that_write_it(case: dict[str, Any], position: int, byte: int) -> None:
    raw = bytearray.fromhex(case["expressions"])
    raw[position % len(raw)] = byte
    decoded = decode(case["family"], bytes(raw))
    assert decode(case["family"], encode(case["family"], decoded)) == decoded


@pytest.mark.parametrize("raw", [bytes(4), b"\x04\0", attribute(1, b""), attribute(1, bytes(4)), attribute(2, b"x")])
def test_malformed_list_is_foreign(raw: bytes) -> None:
    assert decode("ip", raw) == (Foreign(raw.hex()),)


def test_comparison_with_a_verdict_is_foreign() -> None:
    load = make("payload", dreg=1, base=1, offset=12, len=4)
    verdict = VerdictData(1)
    for raw in (
        pack([load, make("cmp", sreg=1, op=0, data=verdict)]),
        pack([load, make("bitwise", sreg=1, dreg=1, len=4, mask=verdict, xor=verdict), make("meta", key=3, sreg=1)]),
    ):
        assert decode("ip", raw) == (Foreign(raw.hex()),)


def test_no_expression_is_no_statement() -> None:
    assert decode("ip", b"") == ()


def test_name_with_zero_byte_is_kept() -> None:
    wanted = (Lookup(("ip daddr",), "a\0b"),)
    assert decode("ip", encode("ip", wanted)) == wanted


@pytest.mark.parametrize(
    ("family", "statement"),
    [
        ("ip", Compare("ip6 saddr", "::1")),
        ("ip6", Compare("icmp type", "echo-request")),
        ("ip", Compare("ip saddr", "10.0.0.1/32")),
        ("ip", Compare("ip saddr", "10.0.0.1/8")),
        ("ip", Compare("ip saddr", "10.0.0.0/08")),
        ("ip", Compare("ip saddr", "fd00::1")),
        ("ip6", Compare("ip6 saddr", "FD00::1")),
        ("ip", Compare("th dport", "65536")),
        ("ip", Compare("th dport", "080")),
        ("ip", Compare("th dport", "80/8")),
        ("ip", Compare("meta l4proto", "6")),
        ("ip", Compare("iifname", "a" * 16)),
        ("ip", Compare("iifname", "")),
        ("ip", Bits("meta length", 1)),
        ("ip", Bits("meta mark", 1 << 32)),
        ("ip", Lookup((), "a")),
        ("ip", Lookup(("ip daddr",), "")),
        ("ip6", Lookup(("ip6 daddr",) * 5, "a")),
        ("ip", Reject("host-unreachable")),
        ("ip", DestinationNat("fd00::1", 80)),
        ("ip", DestinationNat("10.0.0.1", 65536)),
        ("ip", Verdict("jump")),
        ("ip", Verdict("accept", "chain")),
        ("ip", Verdict("queue")),
        ("ip", Random(0)),
    ],
    ids=str,
)
def test_statement_that_is_not_canonical_is_an_error(family: str, statement: Statement) -> None:
    with pytest.raises(ValueError, match="cannot be written"):
        encode(family, [statement])
