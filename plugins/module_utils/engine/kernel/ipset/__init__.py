# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""IP sets (kinds ``set`` and ``member``), through ``ipset save`` and ``ipset restore``: one process for everything."""

from __future__ import annotations

from .read import Saved, read, read_saved, version
from .write import apply

__all__ = ["Saved", "apply", "read", "read_saved", "version"]
