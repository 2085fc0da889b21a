# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Find other service proxies of this node by their answers: an agent by its socket, kube-proxy by its health server.

A container does not see the node's processes, but the socket's directory is mounted, and the network is the node's.
"""

from __future__ import annotations

import os
from http.client import HTTPConnection, HTTPException

from ..paths import SOCKET

_SECONDS = 3.0
_MOST = 4096  # bytes of an answer that are read
_REMEDY = {
    True: "an agent in a container (the DaemonSet) serves this node: exclude the node from the DaemonSet first",
    False: "an agent on the node (kubenode-agent.service) serves this node: remove it first (agent_state: absent with"
    " agent_cleanup: false, or systemctl disable --now kubenode-agent)",
}


def other_agent(directory: str, *, in_container: bool) -> str:
    """Return a sentence about a running agent that was deployed another way than this process, "" for none.

    Args:
        directory: directory of the agent's socket.
        in_container: whether this process is in a container.
    """
    from ..daemon.outputs.control import answers, ask

    path = os.path.join(directory, SOCKET)
    if not answers(path):
        return ""
    try:
        other = bool(ask(path, "status", _SECONDS).get("in_container"))
    except (OSError, ValueError, AttributeError):
        other = not in_container  # it is busy, or has ended meanwhile: the next question tells
    return f"{_REMEDY[other]} ({path})" if other != in_container else ""


def another_proxy(directory: str, health: tuple[str, int]) -> str:
    """Return a sentence about any proxy that must end before an agent in a container may start, "" for none."""
    from ..daemon.outputs.control import answers

    if answers(os.path.join(directory, SOCKET)):
        return other_agent(directory, in_container=True) or "an earlier container of the agent has not ended yet"
    return kube_proxy(*health)


def kube_proxy(address: str, port: int) -> str:
    """Return a sentence about a service proxy that answers on kube-proxy's health address, "" for none."""
    if not port:
        return ""
    host = {"0.0.0.0": "127.0.0.1", "::": "::1", "": "127.0.0.1"}.get(address, address)
    connection = HTTPConnection(host, port, timeout=_SECONDS)
    try:
        connection.request("GET", "/healthz")
        body = connection.getresponse().read(_MOST)
    except (OSError, HTTPException):
        return ""
    finally:
        connection.close()
    if b'"lastUpdated"' not in body:
        return ""
    return f"another service proxy (kube-proxy?) serves this node: it answers at {host} port {port}; end it first"
