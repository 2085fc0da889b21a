# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Events of nftables' trace: one for each rule that a traced packet matches, and for the end of each chain."""

from __future__ import annotations

from typing import NamedTuple

RULE, RETURN, POLICY = "rule", "return", "policy"  # kinds of events
TABLE_PREFIX = "kubenode-trace-"  # of the tables that mark packets for a trace; each ends with its process


class Headers(NamedTuple):
    """Addresses and ports of a packet.

    ``protocol`` is a name (``tcp``, ``udp``, ``sctp``) or a number. ``flags`` are those of TCP, such as ``SYN ACK``.
    Ports are 0 where the packet has none, for example in a later fragment.
    """

    protocol: str
    source: str
    destination: str
    source_port: int = 0
    port: int = 0
    flags: str = ""


class TraceEvent(NamedTuple):
    """One event.

    ``packet`` is the kernel's number of the packet, which a later packet may get again. ``family`` is the table's:
    ``ip``, ``ip6``, ``inet`` …. ``kind`` is ``rule``, ``return`` (end of a regular chain) or ``policy`` (end of a base
    chain). ``handle`` is the rule's handle, 0 for none. ``verdict`` is a word of nft (``accept``, ``drop``,
    ``continue``, ``jump`` …), ``target`` the chain of a jump. ``in_link`` and ``out_link`` are indexes of links, 0 for
    none. ``headers`` are in the first event of each base chain only.
    """

    packet: int
    family: str
    table: str
    chain: str
    kind: str
    handle: int = 0
    verdict: str = ""
    target: str = ""
    mark: int = 0
    in_link: int = 0
    out_link: int = 0
    headers: Headers | None = None


class RuleText(NamedTuple):
    """A rule that an event names: its number in the chain from 1 on, and its text; 0 and "" if unknown."""

    number: int = 0
    text: str = ""
