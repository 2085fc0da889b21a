# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Presence of files that tell what a kernel can do, where a wrong answer would remove state."""

from __future__ import annotations

import os

from ..errors import KernelError


def exists(path: str, subject: str) -> bool:
    """Tell whether a file exists; :func:`os.path.exists` also denies one that it cannot look up.

    Raises:
        KernelError: the kernel cannot tell, for example without memory. ``subject`` begins the message.
    """
    try:
        os.stat(path)
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError as error:
        raise KernelError(f"{subject}: {path} cannot be looked up: {error.strerror}") from error
    return True
