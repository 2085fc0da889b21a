# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Option ``forceadd`` of sets, the only one that ``ipset`` never prints, read from the kernel itself.

The kernel is asked by nfnetlink (linux/netfilter/ipset/ip_set.h).
"""

from __future__ import annotations

from socket import AF_INET
from struct import Struct

from ..netlink import NETLINK_NETFILTER, NetlinkSocket, attribute, attributes, message

_LIST = 0x0607  # NFNL_SUBSYS_IPSET, IPSET_CMD_LIST
_HEADER = bytes((AF_INET, 0, 0, 0))  # struct nfgenmsg
_PROTOCOL, _SETNAME, _FLAGS, _DATA = 1, 2, 6, 7
_PROTOCOL_VERSION = 6  # the oldest that kernels speak
_HEADERS_ONLY = 1 << 2  # IPSET_FLAG_LIST_HEADER, in IPSET_ATTR_FLAGS
_CREATION_FLAGS, _WITH_FORCEADD = 8, 1 << 5  # IPSET_FLAG_WITH_FORCEADD, in IPSET_ATTR_CADT_FLAGS
_U32 = Struct(">I")


def forced() -> set[str]:
    """Return the names of the sets that have ``forceadd``; none where the kernel cannot be asked."""
    request = attribute(_PROTOCOL, bytes((_PROTOCOL_VERSION,))) + attribute(_FLAGS, _U32.pack(_HEADERS_ONLY))
    found = set()
    try:
        with NetlinkSocket(NETLINK_NETFILTER) as socket:
            for payload in socket.dump(message(_LIST, 0, _HEADER + request)):
                header = attributes(payload, len(_HEADER))
                flags = attributes(header.get(_DATA, b"")).get(_CREATION_FLAGS)
                if flags and _U32.unpack(flags)[0] & _WITH_FORCEADD:
                    found.add(header[_SETNAME].rstrip(b"\0").decode("utf-8", "surrogateescape"))
    except OSError:
        return set()
    return found
