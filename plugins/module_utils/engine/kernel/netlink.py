# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Netlink: the transport of IPVS, sets, addresses and connection tracking (see netlink(7)).

:func:`message` packs a message without a sequence number; :class:`NetlinkSocket` adds it on sending. :func:`attribute`
packs attributes, :func:`attributes` unpacks them. Integers are in host order unless a family has another rule.
"""

from __future__ import annotations

import contextlib
import errno
import socket
from collections.abc import Generator, Iterable, Iterator, Sequence
from struct import Struct
from types import TracebackType

NETLINK_ROUTE = 0
NETLINK_NETFILTER = 12
NETLINK_GENERIC = 16

# Address families in messages. Plain integers compare faster than the enum of the module socket.
AF_INET, AF_INET6 = int(socket.AF_INET), int(socket.AF_INET6)
ADDRESS_FAMILIES = {4: AF_INET, 6: AF_INET6}

NLM_F_REQUEST = 0x1
NLM_F_ACK = 0x4
NLM_F_DUMP_INTR = 0x10
NLM_F_DUMP = 0x300
NLM_F_EXCL = 0x200
NLM_F_CREATE = 0x400
NLM_F_APPEND = 0x800
NLA_F_NESTED = 0x8000

_NLMSG_NOOP = 1
_NLMSG_ERROR = 2
_NLMSG_DONE = 3
_NLA_TYPE_MASK = 0x3FFF
_NETLINK_CAP_ACK = 10
SOL_NETLINK = 270
SO_RCVBUFFORCE = 33

_HEADER = Struct("=IHHII")  # length, type, flags, sequence, port
_FLAGS = Struct("=H")  # at offset 6 of the header
_STAMP = Struct("=HI")  # flags and sequence, at the same offset
_SEQUENCE = Struct("=I")
ATTRIBUTE = Struct("=HH")  # length, type
_ERRNO = Struct("=i")
_PADDING = (b"", b"\0\0\0", b"\0\0", b"\0")

_END = _HEADER.pack(16, _NLMSG_NOOP, NLM_F_REQUEST | NLM_F_ACK, 0, 0)
_SEND_BYTES = 32768
_SEND_MESSAGES = 256
_RECEIVE_BYTES = 65536  # from 32 KiB on, the kernel fills the packets of a dump
_QUEUE_BYTES = 1 << 20  # of unread answers; 256 refusals take a quarter of it
_SECONDS = 30
_RESTARTS = 20


def message(kind: int, flags: int, payload: bytes) -> bytes:
    """Return a message of type ``kind``, with NLM_F_REQUEST; the socket adds NLM_F_ACK."""
    size = len(payload)
    return _HEADER.pack(16 + size, kind, flags | NLM_F_REQUEST, 0, 0) + payload + _PADDING[size & 3]


def attribute(kind: int, payload: bytes) -> bytes:
    """Return one attribute, padded to four bytes."""
    size = len(payload)
    return ATTRIBUTE.pack(size + 4, kind) + payload + _PADDING[size & 3]


def string_attribute(kind: int, text: str) -> bytes:
    """Return an attribute with a zero-terminated name, which may have any bytes."""
    return attribute(kind, text.encode("utf-8", "surrogateescape") + b"\0")


def string(raw: bytes) -> str:
    """Return the name in the payload of such an attribute."""
    return raw.rstrip(b"\0").decode("utf-8", "surrogateescape")


def attributes(raw: bytes, start: int = 0) -> dict[int, bytes]:
    """Return the attributes in ``raw`` from offset ``start`` on: type (without its flag bits) to payload.

    Raises:
        ValueError: a length points outside of ``raw``.
    """
    payloads: dict[int, bytes] = {}
    end = len(raw)
    unpack = ATTRIBUTE.unpack_from
    while end - start >= 4:
        size, kind = unpack(raw, start)
        if size < 4 or start + size > end:
            raise ValueError(f"netlink attribute of {size} bytes with {end - start} left")
        payloads[kind & _NLA_TYPE_MASK] = raw[start + 4 : start + size]
        start += size + 3 & ~3
    return payloads


def messages(packet: bytes) -> Iterator[tuple[int, int, int, bytes]]:
    """Yield type, flags, sequence and payload of each message in a packet.

    Raises:
        ValueError: a message is shorter than its header, or longer than the packet.
    """
    offset, end = 0, len(packet)
    unpack = _HEADER.unpack_from
    while offset < end:
        if end - offset < 16:
            raise ValueError(f"netlink message of {end - offset} bytes, expected at least 16")
        size, kind, flags, sequence, _port = unpack(packet, offset)
        if size < 16 or offset + size > end:
            raise ValueError(f"netlink message of {size} bytes with {end - offset} left, expected 16 to that")
        yield kind, flags, sequence, packet[offset + 16 : offset + size]
        offset += size + 3 & ~3


def from_kernel(channel: socket.socket, flags: int = 0) -> bytes:
    """Return the next packet from the kernel; drop those of other processes, whose port is not 0.

    Raises:
        OSError: as recv(2).
    """
    while True:
        packet, (port, _groups) = channel.recvfrom(_RECEIVE_BYTES, flags)
        if port == 0:
            return packet


def event_socket(protocol: int, groups: int, queue: tuple[int, int]) -> socket.socket:
    """Return a non-blocking socket for a protocol's multicast ``groups`` (a mask).

    It receives the events of the thread's network namespace.

    ``queue`` is the socket option and the bytes of its receive queue. Without the capability for that option, the size
    stays as it is.

    Raises:
        OSError: netlink cannot be used.
    """
    subscription = socket.socket(
        socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_CLOEXEC | socket.SOCK_NONBLOCK, protocol
    )
    try:
        with contextlib.suppress(PermissionError):
            subscription.setsockopt(socket.SOL_SOCKET, *queue)
        subscription.bind((0, groups))
    except OSError:
        subscription.close()
        raise
    return subscription


class NetlinkSocket:
    """A netlink conversation with the kernel, in the network namespace of the thread that opens it.

    Not to be shared between threads. Every method raises OSError if the kernel refuses the conversation itself.
    """

    def __init__(self, protocol: int, queue_bytes: int = _QUEUE_BYTES) -> None:
        self._socket = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_CLOEXEC, protocol)
        try:
            self._socket.setsockopt(SOL_NETLINK, _NETLINK_CAP_ACK, 1)  # a refusal does not repeat the request
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, Struct("@ll").pack(_SECONDS, 0))
            try:
                self._socket.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, queue_bytes)
            except PermissionError:
                self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, queue_bytes)
            self._socket.bind((0, 0))
        except OSError:
            self._socket.close()
            raise
        self._sequence = 0

    def close(self) -> None:
        """Close the socket."""
        self._socket.close()

    def __enter__(self) -> NetlinkSocket:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def request(self, messages: Sequence[bytes]) -> list[int]:
        """Send messages, many at a time, and return the outcome of each: 0 or an errno.

        The kernel takes them in order, and continues after one that it refuses. They request no acknowledgement: the
        kernel always reports refusals, and answers an empty message at the end when all are processed. If refusals are
        lost (ENOBUFS: the queue was full), the messages are sent again one by one. So the caller must expect EEXIST for
        creations, and ENOENT or ESRCH for deletions.
        """
        outcome: list[int] = []
        for batch in _batches(messages):
            try:
                outcome.extend(self._exchange(batch))
            except OSError as error:
                if error.errno != errno.ENOBUFS:
                    raise
                self._drain()
                for single in batch:
                    outcome.extend(self._exchange([single]))
        return outcome

    def _exchange(self, batch: Sequence[bytes]) -> list[int]:
        first = self._sequence + 1
        end = self._sequence = self._sequence + len(batch) + 1
        packet = bytearray().join((*batch, _END))
        offset = 0
        for sequence, single in enumerate(batch, first):
            _SEQUENCE.pack_into(packet, offset + 8, sequence)
            offset += len(single)
        _SEQUENCE.pack_into(packet, offset + 8, end)
        self._socket.send(packet)
        outcome = [0] * len(batch)
        while True:
            try:
                answers = self._receive(socket.MSG_DONTWAIT)  # the kernel queues answers before send returns
            except BlockingIOError:
                if not outcome[0]:
                    raise
                return outcome[:1] * len(batch)  # nfnetlink stops at the first message without the right
            for kind, _flags, sequence, payload in answers:
                if kind == _NLMSG_ERROR and first <= sequence < end:
                    outcome[sequence - first] = _code(payload)
                elif sequence == end:
                    return outcome

    def query(self, single: bytes) -> list[bytes]:
        """Send one request and return the payloads of the answer.

        Raises:
            OSError: the kernel refused, for example ENOENT.
        """
        self._send(single, NLM_F_ACK)
        payloads: list[bytes] = []
        while True:
            for kind, _flags, sequence, payload in self._receive():
                if sequence != self._sequence:
                    continue
                if kind == _NLMSG_ERROR:
                    _raise(payload)
                    return payloads
                payloads.append(payload)

    def dump(self, single: bytes) -> list[bytes]:
        """Send one request for a table and return the payloads of all entries.

        A table that changes while it is dumped (NLM_F_DUMP_INTR) is dumped again.

        Raises:
            OSError: the kernel refused; EINTR if the table changed during every attempt.
        """
        payloads: list[bytes] = []
        for entries in self.dumping(single):
            if entries is None:
                payloads.clear()
            else:
                payloads += entries
        return payloads

    def dumping(self, single: bytes) -> Generator[list[bytes] | None, None, None]:
        """Do as :meth:`dump`, yielding the payloads of one packet at a time; None when the dump restarts.

        The kernel continues a dump when its packets are read, so the reader may pause within a large table.
        """
        for _attempt in range(_RESTARTS):
            self._send(single, NLM_F_DUMP)
            torn = done = False
            while not done:
                entries: list[bytes] = []
                for kind, flags, sequence, payload in self._receive():
                    if sequence != self._sequence:
                        continue
                    if flags & NLM_F_DUMP_INTR:
                        torn = True
                    if kind > _NLMSG_DONE:
                        entries.append(payload)
                    elif kind in (_NLMSG_ERROR, _NLMSG_DONE):
                        _raise(payload)
                        done = True
                yield entries
            if not torn:
                return
            yield None
        raise OSError(errno.EINTR, "the table changed during each of many attempts to read it")

    def _send(self, single: bytes, flags: int) -> None:
        self._sequence += 1
        packet = bytearray(single)
        (own,) = _FLAGS.unpack_from(single, 6)
        _STAMP.pack_into(packet, 6, own | flags, self._sequence)
        self._socket.send(packet)

    def _drain(self) -> None:
        """Empty the queue: after an overflow, the kernel queues nothing more before that."""
        while True:
            try:
                self._socket.recv(_RECEIVE_BYTES, socket.MSG_DONTWAIT)
            except BlockingIOError:
                return

    def _receive(self, flags: int = 0) -> list[tuple[int, int, int, bytes]]:
        """Return type, flags, sequence and payload of each message in the next packet."""
        packet = from_kernel(self._socket, flags)
        try:
            return list(messages(packet))
        except ValueError as error:
            raise OSError(errno.EBADMSG, str(error)) from None


def _code(payload: bytes) -> int:
    """Return the errno of an acknowledgement or of the end of a dump; 0 for success or an empty payload."""
    return -int(_ERRNO.unpack_from(payload)[0]) if len(payload) >= 4 else 0


def _raise(payload: bytes) -> None:
    code = _code(payload)
    if code:
        raise OSError(code, errno.errorcode.get(code, "?"))


def _batches(messages: Iterable[bytes]) -> Iterator[list[bytes]]:
    batch: list[bytes] = []
    size = 0
    for single in messages:
        if batch and (size + len(single) > _SEND_BYTES or len(batch) == _SEND_MESSAGES):
            yield batch
            batch, size = [], 0
        batch.append(single)
        size += len(single)
    if batch:
        yield batch
