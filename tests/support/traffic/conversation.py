# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Servers that answer with their name and the client's address, and clients; TCP, UDP and SCTP, in any namespace.

All servers share one thread. A server has the name of its pod, and returns each line as ``NAME CLIENT-ADDRESS
CLIENT-PORT LINE``.
"""

from __future__ import annotations

import errno
import itertools
import os
import selectors
import socket
import struct
import threading
from collections import Counter
from collections.abc import Callable
from typing import NamedTuple

from ..processes.namespace import inside

FAMILIES = {4: socket.AF_INET, 6: socket.AF_INET6}
_KINDS = {
    "tcp": (socket.SOCK_STREAM, socket.IPPROTO_TCP),
    "udp": (socket.SOCK_DGRAM, socket.IPPROTO_UDP),
    "sctp": (socket.SOCK_STREAM, socket.IPPROTO_SCTP),
}
REFUSED = "refused"
SILENCE = "no answer"
ANSWER = 60.0  # seconds for an expected answer; for an unexpected one, a test gives less
UNREACHABLE = "unreachable"
_ECHOES = itertools.count(1)
FORBIDDEN = "may not send"  # the local filter refuses to send (EPERM)


class Target(NamedTuple):
    """Address, port and protocol to which a client connects."""

    address: str
    port: int
    protocol: str = "tcp"

    @property
    def family(self) -> int:
        return 6 if ":" in self.address else 4


class Servers:
    """Servers that answer from :meth:`add` until :meth:`close`."""

    def __init__(self) -> None:
        self._selector = selectors.DefaultSelector()
        self._ours, self._wake = os.pipe()
        self._selector.register(self._ours, selectors.EVENT_READ, None)
        self._lock = threading.Lock()
        self._ending = False
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def add(self, name: str, namespace: str, target: Target) -> None:
        """Answer as ``name`` on an address in a namespace."""
        with inside(namespace):
            server = socket.socket(FAMILIES[target.family], *_KINDS[target.protocol])
        server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if target.family == 6:
            server.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        server.bind((target.address, target.port))
        server.setblocking(False)
        if target.protocol == "udp":
            self._register(server, lambda: self._datagram(name, server))
        else:
            server.listen(64)
            self._register(server, lambda: self._accept(name, server))

    def close(self) -> None:
        """End all servers and their connections."""
        self._ending = True
        os.write(self._wake, b"x")
        self._thread.join(60)
        for key in list(self._selector.get_map().values()):
            if isinstance(key.fileobj, socket.socket):
                key.fileobj.close()
        self._selector.close()
        os.close(self._ours)
        os.close(self._wake)

    def _register(self, server: socket.socket, callback: Callable[[], None]) -> None:
        with self._lock:
            self._selector.register(server, selectors.EVENT_READ, callback)
        os.write(self._wake, b"x")

    def _serve(self) -> None:
        while not self._ending:
            for key, _events in self._selector.select(1):
                if key.data is None:
                    os.read(self._ours, 100)
                else:
                    key.data()

    def _accept(self, name: str, listener: socket.socket) -> None:
        try:
            connection, peer = listener.accept()
        except OSError:
            return  # the client was faster
        connection.setblocking(False)
        self._register(connection, lambda: self._line(name, connection, peer))

    def _line(self, name: str, connection: socket.socket, peer: tuple[str, int]) -> None:
        try:
            data = connection.recv(4096)
            if data:
                connection.send(_answer(name, peer, data))
                return
        except OSError:
            pass
        with self._lock:
            self._selector.unregister(connection)
        connection.close()

    def _datagram(self, name: str, server: socket.socket) -> None:
        try:
            data, peer = server.recvfrom(4096)
            server.sendto(_answer(name, peer, data), peer)
        except OSError:
            pass  # an ICMP error for an earlier answer


def _answer(name: str, peer: tuple[str, int], data: bytes) -> bytes:
    return f"{name} {peer[0]} {peer[1]} ".encode() + data


class Answer(NamedTuple):
    """Answer: name of the server, and the client's address and port that the server saw."""

    name: str
    client: str
    port: int
    line: str


class Talk:
    """One client socket: a connection, or for UDP one source port.

    ``source`` and ``port`` are the client's own ("", 0: the kernel chooses).
    """

    def __init__(
        self, namespace: str, target: Target, *, timeout: float = ANSWER, source: str = "", port: int = 0
    ) -> None:
        with inside(namespace):
            self.socket = socket.socket(FAMILIES[target.family], *_KINDS[target.protocol])
        self.socket.settimeout(timeout)
        try:
            if source or port:
                self.socket.bind((source, port))
            self.socket.connect(target[:2])
        except OSError:
            self.socket.close()
            raise

    def say(self, line: str = "hello") -> Answer:
        """Send a line; return the server's answer."""
        self.socket.send(f"{line}\n".encode())
        answer = self.socket.recv(4096)
        if not answer:
            raise ConnectionResetError("the server has closed the connection")
        name, client, port, echo = answer.decode().split(maxsplit=3)
        return Answer(name, client, int(port), echo.rstrip("\n"))

    def close(self) -> None:
        """Close the connection normally."""
        self.socket.close()

    def abort(self) -> None:
        """Reset the connection, without a socket in TIME_WAIT."""
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.socket.close()


def ask(namespace: str, target: Target, *, timeout: float = ANSWER, source: str = "") -> str:
    """Send one request; return ``NAME sees CLIENT-ADDRESS``, or one of the constants for failures."""
    try:
        talk = Talk(namespace, target, timeout=timeout, source=source)
    except OSError as error:
        return _failure(error)
    try:
        answer = talk.say()
        return f"{answer.name} sees {answer.client}"
    except OSError as error:
        return _failure(error)
    finally:
        talk.close()


def asked(
    namespace: str, target: Target, times: int = 4, *, timeout: float = ANSWER, source: str = ""
) -> dict[str, int]:
    """Send several requests, each from a new port; return the number of each answer."""
    return dict(Counter(ask(namespace, target, timeout=timeout, source=source) for _time in range(times)))


def _failure(error: OSError) -> str:
    if isinstance(error, ConnectionRefusedError):
        return REFUSED
    if isinstance(error, TimeoutError):
        return SILENCE
    if isinstance(error, PermissionError):
        return FORBIDDEN
    return UNREACHABLE if error.errno in (errno.ENETUNREACH, errno.EHOSTUNREACH) else f"{type(error).__name__}: {error}"


def ping(namespace: str, address: str, *, timeout: float = ANSWER) -> str:
    """Send one echo request; return ``pong``, or one of the constants for failures."""
    six = ":" in address
    protocol = socket.IPPROTO_ICMPV6 if six else socket.IPPROTO_ICMP
    with inside(namespace), socket.socket(FAMILIES[6 if six else 4], socket.SOCK_RAW, protocol) as probe:
        probe.settimeout(timeout)
        probe.connect((address, 0))
        number = next(_ECHOES)
        request = struct.pack("!BBHHH", 128 if six else 8, 0, 0, os.getpid() & 0xFFFF, number)
        if not six:  # the kernel adds the checksum of ICMPv6 only
            total = sum(struct.unpack("!4H", request))
            request = request[:2] + struct.pack("!H", ~(total + (total >> 16)) & 0xFFFF) + request[4:]
        try:
            probe.send(request)
            for _packet in range(20):
                answer = probe.recv(2048)
                answer = answer if six else answer[20:]
                if answer[0] == (129 if six else 0) and answer[4:8] == request[4:8]:
                    return "pong"
        except OSError as error:
            return _failure(error)
    return SILENCE
