# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Connection tracking as pyroute2 reads it, in the engine's model."""

from __future__ import annotations

import socket
from typing import Any, NamedTuple

from pyroute2 import Conntrack

from kubenode.engine.kernel.netlink import ADDRESS_FAMILIES, attributes
from kubenode.engine.kernel.nfnetlink.conntrack import Flow

_CTA_ID = 12


class Entry(NamedTuple):
    """A UDP flow: the fields of :class:`Flow`, and the id in its handle."""

    flow: tuple[Any, ...]
    id: int


def udp_flows(family: int) -> set[Entry]:
    """Return all UDP flows of a family (4 or 6)."""
    with Conntrack(nfgen_family=ADDRESS_FAMILIES[family]) as table:
        entries = [_entry(family, message) for message in table.dump()]
    return {entry for entry in entries if entry is not None}


def from_engine(flow: Flow) -> Entry:
    """Return the engine's flow with its handle decoded."""
    handle = attributes(flow.handle)
    return Entry(flow[:-1], int.from_bytes(handle[_CTA_ID], "big"))


def _entry(family: int, message: Any) -> Entry | None:
    original, reply = (message.get(f"CTA_TUPLE_{way}") for way in ("ORIG", "REPLY"))
    ports, answering = (side.get("CTA_TUPLE_PROTO") for side in (original, reply))
    if ports.get("CTA_PROTO_NUM") != socket.IPPROTO_UDP:
        return None
    addresses, replying = (side.get("CTA_TUPLE_IP") for side in (original, reply))
    source, destination = f"CTA_IP_V{family}_SRC", f"CTA_IP_V{family}_DST"
    flow = (
        family,
        addresses.get(source),
        ports.get("CTA_PROTO_SRC_PORT"),
        addresses.get(destination),
        ports.get("CTA_PROTO_DST_PORT"),
        replying.get(source),
        answering.get("CTA_PROTO_SRC_PORT"),
    )
    return Entry(flow, message.get("CTA_ID"))
