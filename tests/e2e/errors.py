# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Error of a run."""

from __future__ import annotations


class E2eError(Exception):
    """The run cannot go on; the text says why and, where known, what to do."""
