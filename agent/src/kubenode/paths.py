# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Where things are on a node, unless an option says otherwise."""

from __future__ import annotations

CONFIG = "/etc/kubenode/config.yaml"
MANIFESTS = "/etc/kubenode/manifests"
RUN = "/run/kubenode"  # ledger, lock, socket: all that dies at reboot
STATE = "/var/lib/kubenode/agent"  # what outlives a reboot
SNAPSHOT = "objects"  # in it: the objects as the API server had them last
SOCKET = "agent.sock"
OWNER = "agent"  # the agent's name in the ledger
