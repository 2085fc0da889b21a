# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Messages of rtnetlink about links, addresses and routes.

See rtnetlink(7), linux/rtnetlink.h, linux/if_link.h and linux/if_addr.h, whose names these are.
"""

from __future__ import annotations

from struct import Struct

from ..netlink import attributes

RTM_NEWLINK, RTM_DELLINK, RTM_GETLINK = 16, 17, 18
RTM_NEWADDR, RTM_DELADDR, RTM_GETADDR = 20, 21, 22
RTM_NEWROUTE, RTM_DELROUTE, RTM_GETROUTE = 24, 25, 26

IFINFOMSG = Struct("=BxHiII")  # family, type, index, flags, change
IFF_UP = 0x1
IFLA_IFNAME, IFLA_TXQLEN, IFLA_LINKINFO = 3, 13, 18
IFLA_INFO_KIND = 1  # inside IFLA_LINKINFO

IFADDRMSG = Struct("=BBBBI")  # family, prefix length, flags, scope, index
IFA_ADDRESS, IFA_LOCAL = 1, 2
IFA_F_NODAD = 0x2

RTMSG = Struct("=BBBBBBBBI")  # family, prefix lengths (to, from), tos, table, protocol, scope, type, flags
RTA_DST, RTA_OIF, RTA_PRIORITY = 1, 4, 6
RT_TABLE_LOCAL = 255
RT_SCOPE_HOST = 254
RTN_LOCAL = 2

ALL_LINKS, ALL_ADDRESSES, ALL_ROUTES = bytes(IFINFOMSG.size), bytes(IFADDRMSG.size), bytes(RTMSG.size)


def unpack_link(payload: bytes) -> tuple[int, bool, dict[int, bytes]]:
    """Return the index of a link, whether it is up, and its attributes.

    Raises:
        struct.error, ValueError: the payload is too short.
    """
    _family, _type, index, flags, _change = IFINFOMSG.unpack_from(payload)
    return index, bool(flags & IFF_UP), attributes(payload, IFINFOMSG.size)


def link_of_address(payload: bytes) -> int:
    """Return the index of an address's link.

    Raises:
        struct.error: the payload is too short.
    """
    return int(IFADDRMSG.unpack_from(payload)[4])


def unpack_address(payload: bytes) -> tuple[int, int, bytes]:
    """Return the index of an address's link, the prefix length, and the packed address (empty if absent).

    Raises:
        struct.error, ValueError: the payload is too short.
    """
    _family, prefix, _flags, _scope, index = IFADDRMSG.unpack_from(payload)
    fields = attributes(payload, IFADDRMSG.size)
    return index, prefix, fields.get(IFA_LOCAL) or fields.get(IFA_ADDRESS) or b""
