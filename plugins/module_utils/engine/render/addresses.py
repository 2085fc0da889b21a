# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Render addresses, one ``address/prefix`` a line."""

from __future__ import annotations

from ..model import ReadState
from ..model.net import family, pack


def render(state: ReadState) -> str:
    """Return the addresses of all links of the state, IPv4 first, sorted."""
    keys = sorted(state.get("address", {}), key=lambda key: (family(key.address), pack(key.address)))
    return "\n".join([*(f"{key.address}/{key.prefix}" for key in keys), ""])
