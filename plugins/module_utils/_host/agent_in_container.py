# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# This module util is PRIVATE to the collection. It can change at any time, do not use it from outside.

"""Find an agent that serves this node from a container (a DaemonSet), by its answer at the agent's socket."""

from __future__ import annotations

import json
import socket

SOCKET = "/run/kubenode/agent.sock"
_SECONDS = 10.0
_MOST = 64 << 20  # bytes; the answer lists every problem
REFUSAL = (
    "an agent in a container (a DaemonSet) serves this node, and two agents would undo each other's work; move the"
    " node to the unit by the playbook kubenode.ipvs.migrate (docs/how-to/daemonset.md); nothing was changed"
)


def serves(path: str = SOCKET) -> bool:
    """Tell whether an agent in a container answers. An agent that does not answer in time does not count."""
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC) as channel:
            channel.settimeout(_SECONDS)
            channel.connect(path)
            channel.sendall(b'{"command": "status"}\n')
            answer = bytearray()
            while (part := channel.recv(65536)) and len(answer) < _MOST:
                answer += part
        return bool(json.loads(answer).get("in_container"))
    except (OSError, ValueError, AttributeError, RecursionError):
        return False
