# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Messages of the nfnetlink subsystem ipset: names of linux/netfilter/ipset/ip_set.h without their prefix IPSET_."""

from __future__ import annotations

from ..netlink import AF_INET, AF_INET6, attribute
from ..nfnetlink import protocol as nfnetlink

CMD_LIST, CMD_SAVE, CMD_ADD, CMD_DEL = 7, 8, 9, 10

# Attributes of a message.
ATTR_PROTOCOL, ATTR_SETNAME, ATTR_TYPENAME, ATTR_FAMILY, ATTR_FLAGS, ATTR_DATA, ATTR_ADT = 1, 2, 3, 5, 6, 7, 8
FLAG_LIST_HEADER = 1 << 2  # in ATTR_FLAGS

# Attributes inside ATTR_DATA: of a member, and of a set's header.
ATTR_IP, ATTR_PORT, ATTR_PORT_TO, ATTR_PROTO, ATTR_CADT_FLAGS = 1, 4, 5, 7, 8
ATTR_INITVAL, ATTR_HASHSIZE, ATTR_MAXELEM, ATTR_BUCKETSIZE = 17, 18, 19, 21
ATTR_ELEMENTS, ATTR_REFERENCES, ATTR_MEMSIZE = 24, 25, 26
ATTR_IP2, ATTR_CIDR2 = 20, 21
FLAG_WITH_FORCEADD = 1 << 5  # in ATTR_CADT_FLAGS

ATTR_IPADDR = {AF_INET: 1, AF_INET6: 2}  # attribute inside ATTR_IP and ATTR_IP2, by address family
PROTOCOLS = {"tcp": 6, "udp": 17, "sctp": 132}  # of members

_VERSION = attribute(ATTR_PROTOCOL, b"\x06")  # the oldest that kernels speak; 7 adds indexes


def request(command: int, payload: bytes) -> bytes:
    """Return a message to ipset; ``payload`` is its further attributes. The header's family has no meaning."""
    return nfnetlink.request(nfnetlink.NFNL_SUBSYS_IPSET, command, AF_INET, _VERSION + payload)
