# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Events of nftables' trace from the messages NFT_MSG_TRACE (linux/netfilter/nf_tables.h, whose names these are)."""

from __future__ import annotations

from collections.abc import Iterator

from ...model.net import unpack as address
from ...model.nft_trace import POLICY, RETURN, RULE, Headers, TraceEvent
from ..netlink import attributes, messages, string
from ..nfnetlink.protocol import HEADER_BYTES, NFNL_SUBSYS_NFTABLES
from .protocol import (
    FAMILY_NAMES,
    HOST32,
    I32,
    TRACE,
    TRACE_CHAIN,
    TRACE_ID,
    TRACE_IIF,
    TRACE_MARK,
    TRACE_NETWORK_HEADER,
    TRACE_OIF,
    TRACE_POLICY,
    TRACE_RULE_HANDLE,
    TRACE_TABLE,
    TRACE_TRANSPORT_HEADER,
    TRACE_TYPE,
    TRACE_VERDICT,
    U16,
    U32,
    U64,
    VERDICT_CHAIN,
    VERDICT_CODE,
)

_KINDS = {1: POLICY, 2: RETURN, 3: RULE}  # NFT_TRACETYPE_*
_VERDICTS = {0: "drop", 1: "accept", 2: "stolen", 3: "queue", 4: "repeat"}  # NF_*
_VERDICTS.update({-1: "continue", -2: "break", -3: "jump", -4: "goto", -5: "return"})  # NFT_*
_VERDICT_BITS = 0xFF  # the others hold the number of a queue, or the error of a drop
_PROTOCOLS = {6: "tcp", 17: "udp", 132: "sctp"}
_TCP_FLAGS = ((0x02, "SYN"), (0x01, "FIN"), (0x04, "RST"), (0x08, "PSH"), (0x10, "ACK"))
_TCP_FLAGS_OFFSET = 13
_IPV4_BYTES, _IPV6_BYTES = 20, 40


def events(packet: bytes) -> Iterator[TraceEvent]:
    """Yield the events in a packet of netlink; other messages are skipped.

    Raises:
        LookupError, ValueError, struct.error: an attribute is missing or cut off.
    """
    for kind, _flags, _sequence, payload in messages(packet):
        if kind == NFNL_SUBSYS_NFTABLES << 8 | TRACE:
            yield _event(payload)


def _event(payload: bytes) -> TraceEvent:
    fields = attributes(payload, HEADER_BYTES)
    kind = _KINDS[_number(fields[TRACE_TYPE])]
    verdict, target = _verdict(fields, kind)
    return TraceEvent(
        HOST32.unpack(fields[TRACE_ID])[0],
        FAMILY_NAMES.get(payload[0], str(payload[0])),
        string(fields[TRACE_TABLE]),
        string(fields[TRACE_CHAIN]),
        kind,
        U64.unpack(fields[TRACE_RULE_HANDLE])[0] if TRACE_RULE_HANDLE in fields else 0,
        verdict,
        target,
        _number(fields.get(TRACE_MARK, bytes(4))),
        _number(fields.get(TRACE_IIF, bytes(4))),
        _number(fields.get(TRACE_OIF, bytes(4))),
        _headers(fields.get(TRACE_NETWORK_HEADER, b""), fields.get(TRACE_TRANSPORT_HEADER, b"")),
    )


def _number(raw: bytes) -> int:
    number: int = U32.unpack(raw)[0]
    return number


def _verdict(fields: dict[int, bytes], kind: str) -> tuple[str, str]:
    """Return the verdict's name and the chain of a jump."""
    if kind == POLICY:
        return _name(_number(fields[TRACE_POLICY])), ""
    verdict = attributes(fields[TRACE_VERDICT])
    return _name(I32.unpack(verdict[VERDICT_CODE])[0]), string(verdict.get(VERDICT_CHAIN, b""))


def _name(code: int) -> str:
    return _VERDICTS.get(code) or _VERDICTS.get(code & _VERDICT_BITS, str(code))


def _headers(network: bytes, transport: bytes) -> Headers | None:
    """Return addresses and ports; None if the kernel sent no header of a known network protocol."""
    version = network[0] >> 4 if network else 0
    if version == 4 and len(network) >= _IPV4_BYTES:
        number, source, destination = network[9], network[12:16], network[16:20]
    elif version == 6 and len(network) >= _IPV6_BYTES:
        number, source, destination = network[6], network[8:24], network[24:40]
    else:
        return None
    protocol = _PROTOCOLS.get(number, str(number))
    ports = (0, 0)
    if number in _PROTOCOLS and len(transport) >= 4:
        ports = (U16.unpack_from(transport)[0], U16.unpack_from(transport, 2)[0])
    flags = ""
    if protocol == "tcp" and len(transport) > _TCP_FLAGS_OFFSET:
        flags = " ".join(name for bit, name in _TCP_FLAGS if transport[_TCP_FLAGS_OFFSET] & bit)
    return Headers(protocol, address(source), address(destination), *ports, flags)
