# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Default paths on a node, used unless an option names another."""

from __future__ import annotations

CONFIG = "/etc/kubenode/config.yaml"
CONFIG_VARIABLE = "KUBENODE_CONFIG"  # environment: the files to use instead, joined by ":"
NODE_VARIABLE = "KUBENODE_NODE"  # environment: the name of the node
MANIFESTS = "/etc/kubenode/manifests"
RUN = "/run/kubenode"  # ledger, lock, socket: removed by a reboot
STATE = "/var/lib/kubenode/agent"  # files that outlive a reboot
SNAPSHOT = "objects"  # in STATE: the API server's objects as last received
HISTORY = "history"  # in STATE: the ring of passes and desired states
SOCKET = "agent.sock"
OWNER = "agent"  # the agent's name in the ledger
