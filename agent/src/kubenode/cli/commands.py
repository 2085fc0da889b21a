# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Commands of ``kubenode``, each with one line of help."""

from __future__ import annotations

COMMANDS = {
    "run": "run the node's service proxy (the systemd unit starts it)",
    "render": "print a node's desired state from manifests, offline, in the native tools' text formats",
    "plan": "print the steps that would converge this node; change nothing",
    "apply": "converge this node with the manifests, once",
    "show": "show this node's virtual servers with owner, Service, real servers, connections and problems",
    "top": "show the traffic of Services, continuously",
    "explain": "explain why a connection arrives or does not arrive",
    "history": "show what the agent did on this node, and the desired state of a moment",
    "status": "show whether the agent runs and the node is converged",
    "check": "check the node's prerequisites",
    "prepare": "prepare this node for an agent in a container, then check it",
    "adopt": "let the agent take over unowned items with its names, once",
    "cleanup": "remove the items that the agent owns on this node",
    "completion": "print a shell completion script",
}
USAGE_ERROR = 64  # EX_USAGE; `plan` exits with 2 if there is something to do
