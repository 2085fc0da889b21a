# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Generic netlink: families that the kernel numbers when their module loads (linux/genetlink.h)."""

from __future__ import annotations

import errno
from struct import Struct

from .netlink import NETLINK_GENERIC, NetlinkSocket, attribute, attributes, message

HEADER_BYTES = 4  # command, version, reserved: precede the attributes of a payload

_GENL_ID_CTRL = 16
_CTRL_CMD_GETFAMILY = 3
_CTRL_ATTR_FAMILY_ID = 1
_CTRL_ATTR_FAMILY_NAME = 2
_U16 = Struct("=H")


class GenericSocket(NetlinkSocket):
    """A conversation with one generic netlink family.

    Raises:
        OSError: ENOENT if the kernel has no such family (its module is not loaded).
    """

    def __init__(self, family: str, version: int = 1) -> None:
        super().__init__(NETLINK_GENERIC)
        self._name, self._version = family, version
        try:
            self._family = self._resolve()
        except OSError:
            self.close()
            raise

    def message(self, command: int, flags: int = 0, payload: bytes = b"") -> bytes:
        """Return a message of this family; ``payload`` is its attributes."""
        return message(self._family, flags, bytes((command, self._version, 0, 0)) + payload)

    def renumber(self) -> bool:
        """Request the family's number again; tell whether it has changed, because its module was loaded anew.

        The kernel refuses a message with a former number as ENOENT (``genl_rcv_msg`` in net/netlink/genetlink.c).

        Raises:
            OSError: ENOENT if the kernel has no such family now.
        """
        before, self._family = self._family, self._resolve()
        return before != self._family

    def _resolve(self) -> int:
        name = attribute(_CTRL_ATTR_FAMILY_NAME, self._name.encode("ascii") + b"\0")
        request = message(_GENL_ID_CTRL, 0, bytes((_CTRL_CMD_GETFAMILY, 1, 0, 0)) + name)
        for payload in self.query(request):
            try:
                number = attributes(payload, HEADER_BYTES).get(_CTRL_ATTR_FAMILY_ID, b"")
            except ValueError as error:
                raise OSError(errno.EBADMSG, str(error)) from None
            if len(number) == _U16.size:
                return int(_U16.unpack(number)[0])
        raise OSError(errno.ENOENT, "ENOENT")
