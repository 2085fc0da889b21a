# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The controller's half of ``nft_tables``: confirm its change over a new connection."""

from __future__ import annotations

from ansible_collections.kubenode.ipvs.plugins.plugin_utils.confirmation import ConfirmingAction


class ActionModule(ConfirmingAction):
    """Action that confirms the module's change."""
