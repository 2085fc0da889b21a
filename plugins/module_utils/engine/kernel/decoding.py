# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Conversion of malformed answers from the kernel or its tools into one documented error.

An answer is malformed if it does not have the form that this version knows.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from contextlib import contextmanager

from ..errors import KernelError

_MALFORMED = (LookupError, TypeError, ValueError, struct.error)


@contextmanager
def decoding(subject: str) -> Iterator[None]:
    """Raise decoding errors as errors of a table, for example ``"the kernel's IPVS table"``.

    Raises:
        KernelError: an attribute or a word is missing, cut off or out of its range.
    """
    try:
        yield
    except _MALFORMED as error:
        reason = f"{type(error).__name__}: {error}"[:200]
        raise KernelError(
            f"{subject} cannot be decoded ({reason}), expected the form that this version knows; "
            "please report this message with the versions of the kernel and its tools"
        ) from error
