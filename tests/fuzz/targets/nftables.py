# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Messages of nftables as the kernel sends them."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from fuzz.kernel_messages import Kernel, packed, payloads
from fuzz.target import Target
from support.tables.nft_traces import recorded_trace

from kubenode.engine.explain.trace_packets import assembled
from kubenode.engine.kernel.decoding import decoding
from kubenode.engine.kernel.netlink import attribute
from kubenode.engine.kernel.nftables import chains as nft_chains
from kubenode.engine.kernel.nftables import set_elements as nft_elements
from kubenode.engine.kernel.nftables import sets as nft_sets
from kubenode.engine.kernel.nftables import trace_events
from kubenode.engine.kernel.nftables.statements import encode
from kubenode.engine.model import nftables as nft

nft_read: Any = import_module("kubenode.engine.kernel.nftables.read")  # its package has a function of this name


class _Ruling(Kernel):
    """Kernel that answers requests to nftables with the payloads marked with the command, in a constant generation."""

    def dump(self, asked: bytes) -> list[bytes]:
        return [payload[1:] for payload in self.payloads if payload[:1] == asked[4:5]]

    def query(self, _asked: bytes) -> list[bytes]:
        return [bytes(4) + attribute(1, bytes(4))]


def _nftables(data: bytes) -> None:
    nft_read.NetlinkSocket = lambda _protocol: _Ruling(payloads(data))
    nft_read.sleep = lambda _seconds: None
    for key, chain in nft_read.read()["nft_chain"].items():
        for rule in chain.rules:
            encode(key.table.family, rule.statements)


def _nftables_seeds() -> list[bytes]:
    seeds = []
    for family, number, type_, address, network in (
        ("ip", 2, "ipv4_addr", "10.0.0.1", "10.0.0.0/9"),
        ("ip6", 10, "ipv6_addr", "fd00::1", "fd00::/61"),
    ):
        table = nft.TableKey(family, "t")
        chain, name = nft.ChainKey(table, "c"), nft.SetKey(table, "s")
        contents = [
            (
                (10, nft_sets.encode_set(name, value, 1)),
                (13, attribute(3, nft_elements.encode_element(value, fields))),
            )
            for value, fields in (
                (nft.NftSet((type_, "inet_proto", "inet_service")), (address, "tcp", "80")),
                (nft.NftSet((type_, "inet_service"), True), (address, "80-90")),
                (nft.NftSet((type_,), True), (network,)),
            )
        ]
        place = (4, nft_chains.encode_chain(chain, nft.Hook("nat", "input", 0)))
        for statement in (
            nft.Compare(f"{family} saddr", network),
            nft.Compare("iifname", "eth0", True),
            nft.Lookup((f"{family} daddr", "meta l4proto", "th dport"), "s"),
            nft.Bits("ct state", 8),
            nft.SetMark(1, 2),
            nft.Random(2),
            nft.Masquerade(True),
            nft.Reject("tcp reset"),
            nft.DestinationNat(address, 80),
            nft.Verdict("jump", "d"),
        ):
            contents.append((place, (7, nft_chains.encode_rule(chain, nft.Rule((statement,), "comment")))))
        header = bytes((number, 0, 0, 0))
        for parts in contents:
            messages = ((1, nft_chains.encode_table(table, 0)), *parts)
            seeds.append(packed([bytes((command,)) + header + raw for command, raw in messages]))
    return seeds


def _trace(data: bytes) -> None:
    with decoding("an event of the kernel's nftables"):
        events = list(trace_events.events(data))
    packets = assembled(events)
    assert sum(len(packet.events) for packet in packets) <= len(events)


def _trace_seeds() -> list[bytes]:
    """Return events of each kind, and one packet's events as one input."""
    seeds = [*recorded_trace("dropped"), *recorded_trace("policy"), *recorded_trace("ipv6")[:20]]
    return [*seeds, b"".join(recorded_trace("dropped"))]


TARGETS = {
    "nftables": Target(_nftables, _nftables_seeds(), longest=1024),
    "nft_trace": Target(_trace, _trace_seeds(), longest=4096),
}
