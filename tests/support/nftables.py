# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Statements of every type and family as hypothesis strategies, for tests of the codec and of the kernel."""

from __future__ import annotations

from ipaddress import IPv4Network, IPv6Network

from hypothesis import strategies as st

from kubenode.engine.kernel.nftables.fields import BIT_FIELDS, FIELDS
from kubenode.engine.model.net import canonical
from kubenode.engine.model.nftables import (
    Bits,
    Compare,
    DestinationNat,
    Lookup,
    Masquerade,
    Random,
    Reject,
    Rule,
    SetMark,
    Statement,
    Verdict,
)

FAMILIES = st.sampled_from(("ip", "ip6"))
_U32 = st.integers(0, 0xFFFFFFFF)
_NAMES = st.text("abcXYZ019_-./\u00e9\udc80", min_size=1, max_size=15)


def addresses(family: str) -> st.SearchStrategy[str]:
    return st.ip_addresses(v=6 if family == "ip6" else 4).map(str).map(canonical)


def networks(family: str) -> st.SearchStrategy[str]:
    kind, bits = (IPv6Network, 128) if family == "ip6" else (IPv4Network, 32)
    parts = st.tuples(addresses(family), st.integers(0, bits - 1))

    def text(part: tuple[str, int]) -> str:
        made = kind(f"{part[0]}/{part[1]}", strict=False)
        return f"{canonical(str(made.network_address))}/{part[1]}"

    return parts.map(text)


def compares(family: str) -> st.SearchStrategy[Compare]:
    def values(name: str) -> st.SearchStrategy[str]:
        field = FIELDS[family][name]
        if field.is_network:
            return addresses(family) | networks(family)
        if name in ("iifname", "oifname"):
            names = _NAMES.filter(lambda text: len(text.encode("utf-8", "surrogateescape")) < 16)
            return st.builds(str.__add__, names, st.sampled_from(("", "*"))).filter(lambda text: "*" not in text[:-1])
        return st.binary(min_size=field.size, max_size=field.size).map(field.format.unpack)

    return st.sampled_from(sorted(FIELDS[family])).flatmap(
        lambda name: st.builds(Compare, st.just(name), values(name), st.booleans())
    )


def lookups(family: str) -> st.SearchStrategy[Lookup]:
    fields = [name for name, field in FIELDS[family].items() if field.size <= 16]
    return st.builds(
        Lookup, st.lists(st.sampled_from(sorted(fields)), min_size=1, max_size=4).map(tuple), _NAMES, st.booleans()
    )


def statements(family: str) -> st.SearchStrategy[Statement]:
    return st.one_of(
        compares(family),
        lookups(family),
        st.builds(Bits, st.sampled_from(sorted(BIT_FIELDS)), _U32, st.booleans()),
        st.builds(SetMark, _U32, _U32),
        st.builds(Masquerade, st.booleans()),
        st.builds(Reject, st.sampled_from(("port-unreachable", "tcp reset"))),
        st.builds(DestinationNat, addresses(family), st.integers(0, 65535)),
        st.builds(Verdict, st.sampled_from(("accept", "drop", "return")), st.just("")),
        st.builds(Verdict, st.sampled_from(("jump", "goto")), _NAMES),
        st.builds(Random, st.integers(1, 0xFFFFFFFF)),
    )


def rules(family: str) -> st.SearchStrategy[Rule]:
    comments = st.text(st.characters(exclude_characters="\0", codec="utf-8"), max_size=32)
    return st.builds(Rule, st.lists(statements(family), max_size=6).map(tuple), comments)
