# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Messages of nfnetlink: the header that all subsystems share (linux/netfilter/nfnetlink.h, whose names these are)."""

from __future__ import annotations

import os

from ..netlink import message

NFNL_SUBSYS_CTNETLINK, NFNL_SUBSYS_IPSET, NFNL_SUBSYS_NFTABLES = 1, 6, 10
NFNLGRP_NFTABLES = 7  # the multicast group with the transactions of nftables
NFNLGRP_NFTRACE = 9  # the multicast group with the events of nftables' trace
HEADER_BYTES = 4  # struct nfgenmsg: family, version, resource
# Netlink port of this process's transactions of nftables, which the kernel writes into the events about them. It is no
# process id, which a process of a container may have as its port.
TRANSACTIONS_PORT = 1 << 31 | int.from_bytes(os.urandom(4), "little") >> 1

_VERSION = 0  # NFNETLINK_V0


def request(subsystem: int, command: int, family: int = 0, payload: bytes = b"") -> bytes:
    """Return a message to a subsystem; ``payload`` is its attributes."""
    return message(subsystem << 8 | command, 0, bytes((family, _VERSION, 0, 0)) + payload)
