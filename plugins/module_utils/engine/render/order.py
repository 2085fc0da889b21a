# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Sort keys for virtual servers, real servers and networks in text."""

from __future__ import annotations

from ..model.ipvs import RealServerKey, VirtualServerKey
from ..model.net import pack

_PROTOCOLS = {"tcp": 0, "udp": 1, "sctp": 2, "fwmark": 3}


def server_order(key: VirtualServerKey) -> tuple[int, int, bytes, int]:
    """Order virtual servers by family, protocol, address, port."""
    return key[3], _PROTOCOLS[key[0]], pack(key[1]) if key[1] else b"", key[2]


def real_order(key: RealServerKey) -> tuple[bytes, int]:
    """Order the real servers of one virtual server by address and port."""
    return pack(key[1]), key[2]


def network_order(network: str) -> tuple[int, bytes, int]:
    """Order networks by family, address, prefix length."""
    raw = pack(network.partition("/")[0])
    return len(raw), raw, int(network.partition("/")[2])
