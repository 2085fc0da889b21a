# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Privilege separation: root works in another user's directory through a child process with that user's rights.

A directory's owner can replace any file in it by a link, a named pipe or a forged database, at any moment. A child with
the owner's rights follows a link only to files that the owner can reach anyway. The parent waits for a bounded time,
and accepts only JSON from the child.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import time
from typing import Any, Callable

from .errors import LedgerError

_LENGTH = 8  # bytes before each message
_LARGEST = 1 << 28  # bytes of a message


class OwnerProcess:
    """A child process with a user's rights, which calls the methods of one object.

    Args:
        uid: the user whose rights the child takes; it keeps only the group ``gid``, and no capability.
        gid: the group whose rights it takes.
        make: creates the object in the child; its methods take and return JSON values.
        seconds: how long an answer may take.

    Raises:
        LedgerError: the child cannot be started, or the object cannot be created; also from :meth:`call`, for errors in
            the child.
    """

    def __init__(self, uid: int, gid: int, make: Callable[[], Any], seconds: float) -> None:
        self._seconds = seconds
        self._channel, theirs = socket.socketpair()
        try:
            self._child = os.fork()
        except OSError:
            self._channel.close()
            theirs.close()
            raise
        if self._child == 0:
            try:
                _serve(theirs, uid, gid, make)
            finally:
                os._exit(0)
        theirs.close()
        try:
            self._answer()
        except BaseException:
            self.close()
            raise

    def call(self, method: str, *arguments: Any) -> Any:
        """Call a method of the object and return its result.

        Raises:
            LedgerError: the method failed, or the child ended or did not answer in time.
        """
        self._channel.settimeout(self._seconds)
        try:
            _send(self._channel, [method, arguments])
        except OSError as error:
            raise LedgerError(f"the helper process that opens it as its owner has ended ({error})") from error
        return self._answer()

    def close(self) -> None:
        """End the child."""
        if self._child:
            self._channel.close()
            with contextlib.suppress(ProcessLookupError):
                os.kill(self._child, signal.SIGKILL)
            os.waitpid(self._child, 0)
            self._child = 0

    def _answer(self) -> Any:
        try:
            answer = _receive(self._channel, self._seconds)
            error, result = answer
        except socket.timeout:
            raise LedgerError(
                f"reading its files as their owner took more than {self._seconds:g} s (a named pipe, or a locked file?)"
            ) from None
        except (OSError, ValueError, TypeError, RecursionError) as error:
            raise LedgerError("the helper process that opens it as its owner has ended") from error
        if error is not None:
            raise LedgerError(str(error)[:500])
        return result


def _serve(channel: socket.socket, uid: int, gid: int, make: Callable[[], Any]) -> None:
    """Answer calls until the parent has ended."""
    try:
        _leave_everything(channel.fileno())
        os.setgroups([])
        os.setresgid(gid, gid, gid)
        os.setresuid(uid, uid, uid)
        served = make()
        _send(channel, [None, None])
    except Exception as error:
        _send(channel, [str(error), None])
        return
    while True:
        method, arguments = _receive(channel, None)
        try:
            answer = [None, getattr(served, method)(*arguments)]
        except Exception as error:  # the parent reports it
            answer = [str(error), None]
        _send(channel, answer)


def _leave_everything(keep: int) -> None:
    """Close the parent's open files: readers of its pipes must not wait for this process."""
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGALRM):
        signal.signal(number, signal.SIG_DFL)
    signal.set_wakeup_fd(-1)
    null = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):
        os.dup2(null, stream)
    for text in os.listdir("/proc/self/fd"):
        if int(text) > 2 and int(text) != keep:
            with contextlib.suppress(OSError):
                os.close(int(text))
    os.chdir("/")


def _send(channel: socket.socket, content: Any) -> None:
    data = json.dumps(content).encode()
    channel.sendall(len(data).to_bytes(_LENGTH, "big") + data)


def _receive(channel: socket.socket, seconds: float | None) -> Any:
    deadline = None if seconds is None else time.monotonic() + seconds
    length = int.from_bytes(_exactly(channel, _LENGTH, deadline), "big")
    if length > _LARGEST:
        raise ValueError(f"{length} bytes")
    return json.loads(_exactly(channel, length, deadline))


def _exactly(channel: socket.socket, count: int, deadline: float | None) -> bytes:
    data = bytearray()
    while len(data) < count:
        if deadline is not None:
            left = deadline - time.monotonic()
            if left <= 0:
                raise socket.timeout("timed out")
            channel.settimeout(left)
        part = channel.recv(min(count - len(data), 1 << 20))
        if not part:
            raise ConnectionAbortedError("closed")
        data += part
    return bytes(data)
