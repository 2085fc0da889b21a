# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Numbers of the generic netlink family IPVS, as in ``include/uapi/linux/ip_vs.h``; IPVS_ is left out."""

from __future__ import annotations

FAMILY = "IPVS"


class Command:
    """IPVS_CMD_*: commands."""

    NEW_SERVICE = 1
    SET_SERVICE = 2
    DEL_SERVICE = 3
    GET_SERVICE = 4
    NEW_DEST = 5
    SET_DEST = 6
    DEL_DEST = 7
    GET_DEST = 8
    NEW_DAEMON = 9
    DEL_DAEMON = 10
    GET_DAEMON = 11
    SET_CONFIG = 12
    GET_CONFIG = 13
    GET_INFO = 15
    ZERO = 16
    FLUSH = 17


class Top:
    """IPVS_CMD_ATTR_*: attributes at the top of a message."""

    SERVICE = 1
    DEST = 2
    DAEMON = 3
    TIMEOUT_TCP = 4
    TIMEOUT_TCP_FIN = 5
    TIMEOUT_UDP = 6


class Service:
    """IPVS_SVC_ATTR_*: a virtual server."""

    AF = 1
    PROTOCOL = 2
    ADDR = 3
    PORT = 4  # network order
    FWMARK = 5
    SCHED_NAME = 6
    FLAGS = 7  # value, mask
    TIMEOUT = 8
    NETMASK = 9  # IPv4: the mask in network order; IPv6: the prefix length in host order
    STATS = 10
    PE_NAME = 11
    STATS64 = 12  # since 4.1


class Dest:
    """IPVS_DEST_ATTR_*: a real server."""

    ADDR = 1
    PORT = 2  # network order
    FWD_METHOD = 3
    WEIGHT = 4
    U_THRESH = 5
    L_THRESH = 6
    ACTIVE_CONNS = 7
    INACT_CONNS = 8
    PERSIST_CONNS = 9
    STATS = 10
    ADDR_FAMILY = 11  # since 3.18; before, that of the virtual server
    STATS64 = 12
    TUN_TYPE = 13  # since 5.3
    TUN_PORT = 14  # network order
    TUN_FLAGS = 15


class Daemon:
    """IPVS_DAEMON_ATTR_*: a connection synchronisation daemon."""

    STATE = 1
    MCAST_IFN = 2
    SYNC_ID = 3
    SYNC_MAXLEN = 4
    MCAST_GROUP = 5
    MCAST_GROUP6 = 6
    MCAST_PORT = 7  # host order
    MCAST_TTL = 8


class Stats:
    """IPVS_STATS_ATTR_*: counters and rates; order and meaning are those of :class:`~.statistics.Traffic`."""

    CONNS = 1
    INPKTS = 2
    OUTPKTS = 3
    INBYTES = 4
    OUTBYTES = 5
    CPS = 6
    INPPS = 7
    OUTPPS = 8
    INBPS = 9
    OUTBPS = 10


class Info:
    """IPVS_INFO_ATTR_*: the answer to GET_INFO, at the top of the message."""

    VERSION = 1
    CONN_TAB_SIZE = 2
