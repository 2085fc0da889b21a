# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""BLAKE2b (RFC 7693) without OpenSSL.

``hashlib`` has the same function and loads OpenSSL with it: 3.6 MiB of resident memory in a process without TLS.
"""

from __future__ import annotations

try:
    from _blake2 import blake2b
except ImportError:  # not CPython
    from hashlib import blake2b

__all__ = ["blake2b"]
