# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""IPVS through a generic netlink codec: every attribute of both families, many messages to a system call.

``table`` reads and writes virtual and real servers, ``control`` timeouts and sync daemons. ``statistics`` reads
counters.
"""

from __future__ import annotations

from .connection import connect
from .table import apply, read, read_address, read_connections, read_details, reading

__all__ = [
    "apply",
    "connect",
    "read",
    "read_address",
    "read_connections",
    "read_details",
    "reading",
]
