# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""IPVS through its own generic netlink codec: every attribute of both families, many messages to a system call."""

from __future__ import annotations

from .connection import available, connect
from .control import (
    Timeouts,
    Version,
    daemons,
    flush,
    get_timeouts,
    info,
    set_timeouts,
    start_daemon,
    stop_daemon,
    zero,
)
from .statistics import RealServerTraffic, Traffic, statistics
from .table import apply, read, read_connections

__all__ = [
    "RealServerTraffic",
    "Timeouts",
    "Traffic",
    "Version",
    "apply",
    "available",
    "connect",
    "daemons",
    "flush",
    "get_timeouts",
    "info",
    "read",
    "read_connections",
    "set_timeouts",
    "start_daemon",
    "statistics",
    "stop_daemon",
    "zero",
]
