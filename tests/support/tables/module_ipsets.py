# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Helpers shared by the tests of the module ipsets."""

from __future__ import annotations

from typing import Any

from kernel.modules import converge

from ..processes.namespace import sh


def saved(name: str) -> list[str]:
    """Return the output of ipset save for one set: header, and members in the order of their texts."""
    lines = sh("ipset", "save", name).splitlines()
    return lines[:1] + sorted(lines[1:])


def sets(*items: dict[str, Any], **arguments: Any) -> dict[str, Any]:
    """Converge these sets. Check mode must predict the change, and a second run must change nothing."""
    return converge("ipsets", sets=list(items), **arguments)
