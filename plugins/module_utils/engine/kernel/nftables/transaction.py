# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Transactions of nftables: one batch of messages, which the kernel takes as a whole or not at all.

The kernel works while the batch is sent, and has queued its refusals when sending returns.
"""

from __future__ import annotations

import contextlib
import errno
import os
import socket
from collections.abc import Sequence
from struct import Struct
from typing import NamedTuple

from ...errors import BusyError, KernelError, MissingError
from ..netlink import (
    NETLINK_NETFILTER,
    SO_RCVBUFFORCE,
    SOL_NETLINK,
    attribute,
    attributes,
    from_kernel,
    message,
    messages,
    string,
)
from ..nfnetlink.protocol import NFNL_SUBSYS_NFTABLES
from .protocol import BATCH_BEGIN, BATCH_END, BATCH_GENID, HOST32, I32, U32

_SO_SNDBUFFORCE = 32
_NETLINK_CAP_ACK, _NETLINK_EXT_ACK = 10, 11
_NLMSG_ERROR = 2
_NLM_F_ACK_TLVS = 0x200
_ERROR = Struct("=iIHHII")  # errno, and the header of the refused message
_ATTR_MSG, _ATTR_OFFS = 1, 2  # NLMSGERR_*
_SEQUENCE = Struct("=I")
_SEQUENCE_OFFSET = 8
_QUEUE_BYTES = 1 << 20
_SMALL_BYTES = 4096  # a packet of some messages, for which the default sizes suffice
_FIRST = 2  # sequence number of the first message; the batch itself has the one before
_HEADER = bytes((0, 0, 0, NFNL_SUBSYS_NFTABLES))
_END = message(BATCH_END, 0, _HEADER)

MISSING = "nftables cannot be used: load the kernel module nf_tables"
FORBIDDEN = "nftables may not be used: the capability CAP_NET_ADMIN is needed (run as root)"


class Refusal(NamedTuple):
    """A refused message: its number, the errno, the kernel's explanation ("" for none), and the offset in it or 0."""

    number: int
    code: int
    text: str
    offset: int

    def reason(self) -> str:
        """Return the reason in words."""
        words = os.strerror(self.code)
        return f"{words} ({self.text})" if self.text else words


def transact(
    batch: Sequence[bytes],
    generation: int | None = None,
    rehearse: bool = False,
    channel: socket.socket | None = None,
    events: list[bytes] | None = None,
) -> list[Refusal]:
    """Send messages as one transaction; return the refused ones, in order. If there is one, nothing was changed.

    Args:
        batch: the messages.
        generation: the number of the rules' generation on which the messages are based; None for any.
        rehearse: let the kernel check the messages and drop them, as ``nft --check`` does: the batch has no end.
        channel: the socket to send them by, of :func:`open_channel` or after :func:`shorten_refusals`, which then owns
            tables with the flag owner; None for a socket of its own.
            After an error, it may have answers that belong to this transaction, and must be closed.
        events: gets the packets with anything else that this channel receives meanwhile.

    Raises:
        BusyError: the rules are of another generation.
        MissingError: the kernel lacks nftables, or this process the right.
        KernelError: the conversation failed, or the kernel refused the transaction after it took each message.
    """
    options = b"" if generation is None else attribute(BATCH_GENID, U32.pack(generation))
    whole = [message(BATCH_BEGIN, 0, _HEADER + options), *batch, *([] if rehearse else [_END])]
    packet = bytearray().join(whole)
    offset = _SEQUENCE_OFFSET
    for sequence, single in enumerate(whole, _FIRST - 1):
        _SEQUENCE.pack_into(packet, offset, sequence)
        offset += len(single)
    try:
        refusals = _exchange(packet) if channel is None else _converse(channel, packet, events)
    except (OSError, ValueError) as error:
        raise KernelError(f"the conversation with the kernel's nftables failed: {error}") from error
    for refusal in refusals:
        if not 0 <= refusal.number < len(batch):
            raise _of_the_whole(refusal)
    return refusals


def _of_the_whole(refusal: Refusal) -> KernelError:
    if refusal.code == errno.ERESTART:
        return BusyError("another process changed nftables since it was read; it has to be read and planned again")
    if refusal.code in (errno.EPERM, errno.EACCES):
        return MissingError(FORBIDDEN)
    if refusal.code in (errno.EINVAL, errno.EOPNOTSUPP, errno.EPROTONOSUPPORT):
        return MissingError(MISSING)
    return KernelError(f"the kernel refused a transaction of nftables: {refusal.reason()}")


def open_channel() -> socket.socket:
    """Return a socket for transactions.

    Raises:
        OSError: netlink cannot be used.
    """
    channel = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_CLOEXEC, NETLINK_NETFILTER)
    shorten_refusals(channel)
    return channel


def shorten_refusals(channel: socket.socket) -> None:
    """Let refusals have the kernel's explanation, and not the whole refused message."""
    channel.setsockopt(SOL_NETLINK, _NETLINK_CAP_ACK, 1)
    with contextlib.suppress(OSError):  # explanations only
        channel.setsockopt(SOL_NETLINK, _NETLINK_EXT_ACK, 1)


def _exchange(packet: bytearray) -> list[Refusal]:
    with open_channel() as channel:
        return _converse(channel, packet)


def _converse(channel: socket.socket, packet: bytearray, events: list[bytes] | None = None) -> list[Refusal]:
    if len(packet) > _SMALL_BYTES:
        _enlarge(channel, len(packet))
    channel.send(packet)
    return _refusals(channel, events)


def _enlarge(channel: socket.socket, size: int) -> None:
    """Make room for a packet, and for many refusals."""
    for option, plain, room in (
        (SO_RCVBUFFORCE, socket.SO_RCVBUF, _QUEUE_BYTES),
        (_SO_SNDBUFFORCE, socket.SO_SNDBUF, size + _QUEUE_BYTES),
    ):
        try:
            channel.setsockopt(socket.SOL_SOCKET, option, room)
        except PermissionError:
            channel.setsockopt(socket.SOL_SOCKET, plain, room)


def _refusals(channel: socket.socket, events: list[bytes] | None) -> list[Refusal]:
    """Read all answers; those that do not fit into the queue are lost, but not the first ones.

    Packets without an answer are appended to ``events``.

    Raises:
        ValueError: an answer is malformed.
    """
    refusals = []
    lost = False
    while True:
        try:
            packet = from_kernel(channel, socket.MSG_DONTWAIT)
        except BlockingIOError:
            break
        except OSError as error:
            if error.errno != errno.ENOBUFS:
                raise
            lost = True
            continue
        is_answer = False
        for kind, flags, sequence, payload in messages(packet):
            is_answer = is_answer or kind == _NLMSG_ERROR
            refusal = _refusal(flags, sequence, payload) if kind == _NLMSG_ERROR else None
            if refusal is not None:
                refusals.append(refusal)
        if events is not None and not is_answer:
            events.append(packet)
    if lost and not refusals:
        raise OSError(errno.ENOBUFS, "the kernel's refusals were lost")
    return sorted(refusals)


def _refusal(flags: int, sequence: int, payload: bytes) -> Refusal | None:
    """Return the refusal in an NLMSG_ERROR; None for an acknowledgement."""
    if len(payload) < _ERROR.size:
        raise ValueError(f"netlink error of {len(payload)} bytes")
    code = -_ERROR.unpack_from(payload)[0]
    if not code:
        return None
    details = attributes(payload, _ERROR.size) if flags & _NLM_F_ACK_TLVS else {}
    offset = details.get(_ATTR_OFFS, b"")
    return Refusal(
        sequence - _FIRST,
        code,
        string(details.get(_ATTR_MSG, b"")),
        HOST32.unpack(offset)[0] if len(offset) == I32.size else 0,
    )
