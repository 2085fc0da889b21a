# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Files of other programs and of the kernel."""

from __future__ import annotations


def foreign_text(path: str) -> str:
    """Return the text of another program's file; "" if it cannot be read, since it has no effect at boot then."""
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read()
    except OSError:
        return ""
