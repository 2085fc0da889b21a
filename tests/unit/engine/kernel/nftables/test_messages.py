# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tables, chains and rules as attributes of the kernel, and steps as messages in the order that it accepts."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from support.nftables import rules

from kubenode.engine.kernel.netlink import attribute, attributes, messages
from kubenode.engine.kernel.nftables.chains import (
    decode_chain,
    decode_rule,
    decode_table,
    encode_chain,
    encode_rule,
    encode_table,
)
from kubenode.engine.kernel.nftables.messages import InvalidStepError, compose
from kubenode.engine.model.nftables import (
    ChainKey,
    Compare,
    ElementKey,
    Hook,
    Lookup,
    NftChain,
    NftSet,
    Rule,
    SetKey,
    TableKey,
    Verdict,
)
from kubenode.engine.model.step import Step

TABLE = TableKey("ip", "t")
CHAIN, SET = ChainKey(TABLE, "c"), SetKey(TABLE, "s")
ADDRESSES = NftSet(("ipv4_addr",))
EMPTY = NftChain(None, ())
FULL = NftChain(None, (Rule((Lookup(("ip daddr",), "s"), Verdict("jump", "d"))),))
NAMES = ("NEWTABLE", "GETTABLE", "DELTABLE", "NEWCHAIN", "GETCHAIN", "DELCHAIN", "NEWRULE", "GETRULE", "DELRULE")
NAMES += ("NEWSET", "GETSET", "DELSET", "NEWSETELEM", "GETSETELEM", "DELSETELEM")


def commands(*steps: Step, types: dict[SetKey, NftSet] | None = None) -> list[str]:
    return [
        NAMES[kind & 0xFF]
        for each in compose(steps, types or {})
        for kind, _flags, _sequence, _payload in messages(each.raw)
    ]


def element(text: str, *, gone: bool = False) -> Step:
    return Step("nft_element", ElementKey(SET, (text,)), "" if gone else None, None if gone else "")


@given(rules("ip"))
def test_decoding_a_rule_undoes_encoding(rule: Rule) -> None:
    assert decode_rule(TABLE, attributes(encode_rule(CHAIN, rule))) == (CHAIN, rule)


@pytest.mark.parametrize(
    "hook", [None, Hook("nat", "prerouting", -100), Hook("filter", "forward", 0, "drop"), Hook("route", "output", 5)]
)
def test_decoding_a_chain_undoes_encoding(hook: Hook | None) -> None:
    assert decode_chain(TABLE, attributes(encode_chain(CHAIN, hook))) == (CHAIN, hook)


def test_decoding_a_table_undoes_encoding() -> None:
    assert decode_table(attributes(encode_table(TABLE, 1))) == ("t", 1)


@pytest.mark.parametrize("hook", [Hook("nat", "ingress", 0), Hook("nat", "input", 1 << 31), Hook("a", "input", 0, "b")])
def test_unknown_hook_is_an_error(hook: Hook) -> None:
    with pytest.raises(ValueError, match="cannot be written"):
        encode_chain(CHAIN, hook)


def test_long_comment_is_an_error() -> None:
    with pytest.raises(ValueError, match="comment of 129 bytes"):
        encode_rule(CHAIN, Rule((), "a" * 129))


@pytest.mark.parametrize("notes", [b"\1\1a\0\2b\0", b"\0\xffb"])
def test_comment_is_read_among_other_notes(notes: bytes) -> None:
    fields = {2: b"c\0", 7: notes}
    assert decode_rule(TABLE, fields) == (CHAIN, Rule((), "b"))


@pytest.mark.parametrize("notes", [b"", b"\0", b"\1\0\1", b"\1\xff"])
def test_notes_without_a_comment_are_no_comment(notes: bytes) -> None:
    assert decode_rule(TABLE, {2: b"c\0", 7: notes}) == (CHAIN, Rule(()))


@pytest.mark.parametrize("fields", [{}, {3: b"c\0", 4: b""}, {3: b"c\0", 4: attribute(1, b"")}])
def test_malformed_chain_is_an_error(fields: dict[int, bytes]) -> None:
    with pytest.raises((LookupError, ValueError, struct.error)):
        decode_chain(TABLE, fields)


def test_creations_come_in_the_order_of_the_kernel() -> None:
    steps = (
        Step("nft_chain", CHAIN, None, FULL),
        element("10.0.0.1"),
        Step("nft_chain", ChainKey(TABLE, "d"), None, EMPTY),
        Step("nft_set", SET, None, ADDRESSES),
        Step("nft_table", TABLE, None, 0),
    )
    assert commands(*steps) == ["NEWTABLE", "NEWSET", "NEWCHAIN", "NEWCHAIN", "NEWSETELEM", "NEWRULE"]


def test_deletions_empty_chains_first() -> None:
    steps = (
        element("10.0.0.1", gone=True),
        Step("nft_set", SET, ADDRESSES, None),
        Step("nft_chain", CHAIN, FULL, None),
        Step("nft_chain", ChainKey(TABLE, "d"), EMPTY, None),
    )
    assert commands(*steps) == ["DELRULE", "DELRULE", "DELCHAIN", "DELCHAIN", "DELSET"]
    assert commands(*steps, Step("nft_table", TABLE, 0, None)) == ["DELTABLE"]


def test_changed_rules_keep_their_chain() -> None:
    assert commands(Step("nft_chain", CHAIN, EMPTY, FULL)) == ["DELRULE", "NEWRULE"]


def test_changed_hook_renews_the_chain() -> None:
    hooked = NftChain(Hook("filter", "input", 0), FULL.rules)
    assert commands(Step("nft_chain", CHAIN, FULL, hooked)) == ["DELRULE", "DELCHAIN", "NEWCHAIN", "NEWRULE"]


def test_elements_are_split_over_messages_and_located() -> None:
    steps = [element(f"10.0.{number >> 8}.{number & 255}") for number in range(10000)]
    batch = compose(steps, {SET: ADDRESSES})
    assert len(batch) > 1
    assert all(len(message.raw) < 65536 for message in batch)
    assert [step for message in batch for step in message.steps] == steps
    for message in batch:
        for offset, step in zip(message.offsets, message.steps, strict=True):
            address = bytes(int(part) for part in step.key.fields[0].split("."))
            assert address in message.raw[offset : offset + 16]
            assert message.origin(offset + 8) == step
        assert message.origin(0) == message.steps[0]


@pytest.mark.parametrize(
    "step",
    [
        element("fd00::1"),
        Step("nft_element", ElementKey(SetKey(TABLE, "none"), ("10.0.0.1",)), None, ""),
        Step("nft_set", SET, None, NftSet(("foreign",))),
        Step("nft_chain", CHAIN, EMPTY, NftChain(None, (Rule((Compare("ip6 saddr", "::1"),)),))),
        Step("nft_chain", CHAIN, None, NftChain(Hook("nat", "nowhere", 0), ())),
        Step("nft_table", TableKey("bridge", "t"), None, 0),
    ],
    ids=str,
)
def test_step_that_cannot_be_written_is_named(step: Step) -> None:
    with pytest.raises(InvalidStepError) as caught:
        compose([Step("nft_table", TABLE, None, 0), step], {SET: ADDRESSES} if step.kind != "nft_set" else {})
    assert caught.value.step == step
