# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""iptables (kinds ``chain`` and ``jump``), through ``iptables-save`` and ``iptables-restore``.

The node's back end is used, legacy or nft.

Rules of others never change. One side effect is the legacy back end's: any change of a table resets the counters of its
policies, but not those of its rules.
"""

from __future__ import annotations

from .fingerprint import fingerprint
from .normalise import Spelled, mentioned_sets, normalise
from .read import read
from .tool import Version, choose, version
from .write import apply

__all__ = ["Spelled", "Version", "apply", "choose", "fingerprint", "mentioned_sets", "normalise", "read", "version"]
