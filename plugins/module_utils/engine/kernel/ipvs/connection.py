# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Open a netlink conversation with the kernel's IPVS."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from contextlib import contextmanager

from ...errors import KernelError, MissingError
from ..genetlink import GenericSocket
from .attributes import FAMILY
from .errors import FORBIDDEN, MISSING


def open_socket() -> GenericSocket:
    """Return a socket for IPVS in the thread's network namespace; the kernel then loads ip_vs if it can.

    Raises:
        MissingError: the kernel has no ip_vs, or netlink cannot be used.
    """
    with _resolving():
        return GenericSocket(FAMILY)


def is_reloaded(socket: GenericSocket) -> bool:
    """Tell whether ip_vs was loaded anew since the socket had its number: then the kernel took no message with that.

    Raises:
        MissingError: as :func:`open_socket`.
    """
    with _resolving():
        return socket.renumber()


@contextmanager
def _resolving() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        if error.errno == errno.ENOENT:
            raise MissingError(MISSING) from None
        raise MissingError(f"netlink cannot be used: {error.strerror or error}") from error


@contextmanager
def as_errors() -> Iterator[None]:
    """Raise an OSError, which is the kernel refusing a conversation, as the engine's error.

    Raises:
        MissingError: the process has no right to use IPVS.
        KernelError: any other refusal.
    """
    try:
        yield
    except PermissionError:
        raise MissingError(FORBIDDEN) from None
    except OSError as error:
        raise KernelError(f"the conversation with the kernel's IPVS failed: {error.strerror or error}") from error


@contextmanager
def connect() -> Iterator[GenericSocket]:
    """Open a conversation as :func:`open_socket`; errors within the ``with`` block are those of :func:`as_errors`."""
    socket = open_socket()
    with socket, as_errors():
        yield socket
