# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Lab: Linux nodes with a real kernel (user-mode Linux), each an ordinary process in a network namespace of the lab.

Needs a Debian 12 host, root and the standard library; see docs/how-to/lab.md.
"""

from __future__ import annotations
