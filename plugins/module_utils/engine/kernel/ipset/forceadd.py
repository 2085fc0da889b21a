# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Read the option ``forceadd`` of sets by nfnetlink, because ``ipset`` never prints it."""

from __future__ import annotations

from struct import Struct

from ..netlink import NETLINK_NETFILTER, NetlinkSocket, attribute, attributes, string
from ..nfnetlink.protocol import HEADER_BYTES
from .protocol import (
    ATTR_CADT_FLAGS,
    ATTR_DATA,
    ATTR_FLAGS,
    ATTR_SETNAME,
    CMD_LIST,
    FLAG_LIST_HEADER,
    FLAG_WITH_FORCEADD,
    request,
)

_U32 = Struct(">I")


def forced() -> set[str]:
    """Return the names of the sets that have ``forceadd``; none where the kernel cannot be asked."""
    headers_only = attribute(ATTR_FLAGS, _U32.pack(FLAG_LIST_HEADER))
    names = set()
    try:
        with NetlinkSocket(NETLINK_NETFILTER) as socket:
            for payload in socket.dump(request(CMD_LIST, headers_only)):
                header = attributes(payload, HEADER_BYTES)
                flags = attributes(header.get(ATTR_DATA, b"")).get(ATTR_CADT_FLAGS)
                if flags and _U32.unpack(flags)[0] & FLAG_WITH_FORCEADD:
                    names.add(string(header[ATTR_SETNAME]))
    except OSError:
        return set()
    return names
