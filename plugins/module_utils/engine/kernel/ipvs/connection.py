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


@contextmanager
def connect() -> Iterator[GenericSocket]:
    """Open a conversation in the thread's network namespace; the kernel then loads ip_vs if it can.

    Raises:
        MissingError: the kernel has no ip_vs, or the process has no right to use it. Within the ``with`` block an
            OSError, which is the kernel refusing a read, is raised as a KernelError.
    """
    try:
        socket = GenericSocket(FAMILY)
    except OSError as error:
        if error.errno == errno.ENOENT:
            raise MissingError(MISSING) from None
        raise MissingError(f"netlink cannot be used: {error.strerror or error}") from error
    with socket:
        try:
            yield socket
        except PermissionError:
            raise MissingError(FORBIDDEN) from None
        except OSError as error:
            raise KernelError(f"the conversation with the kernel's IPVS failed: {error.strerror or error}") from error
