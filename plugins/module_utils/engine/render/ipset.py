# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Render sets as ``ipset save`` prints them on a current kernel, without the random hash seed."""

from __future__ import annotations

from ..model import ReadState
from ..model.ipset import MemberKey

# The choice of kernels since 5.11 for every hash. Not a desired option of a set: older tools do not have it.
_BUCKETS = "bucketsize 12"


def render(state: ReadState) -> str:
    """Return all sets, sorted by name, each with its members, sorted."""
    members: dict[str, list[tuple[MemberKey, str]]] = {}
    for item in state.get("member", {}).items():
        members.setdefault(item[0].set, []).append(item)
    lines = []
    for name, value in sorted(state.get("set", {}).items()):
        buckets = f" {_BUCKETS}" if value.type.startswith("hash:") and not value.option("bucketsize") else ""
        lines.append(f"create {name} {value.text()}{buckets}")
        for key, options in sorted(members.get(name, ())):
            lines.append(f"add {name} {key.member} {options}".rstrip())
    return "\n".join([*lines, ""])
