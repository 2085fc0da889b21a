# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Types of what the collection uses of Ansible's helpers for variables."""

from typing import Any

def merge_hash(x: dict[str, Any], y: dict[str, Any]) -> dict[str, Any]: ...
