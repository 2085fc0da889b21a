# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Desired virtual servers with their Services: from the running agent, or else from manifests."""

from __future__ import annotations

import argparse
import os

from ..engine.errors import EngineError
from ..engine.model.ipvs import endpoint
from ..paths import SOCKET
from .ask import question
from .top_rows import Wanted


def wanted_servers(options: argparse.Namespace) -> tuple[dict[str, Wanted], str]:
    """Return the desired virtual servers by their text, and why they are unknown ("" if they are known)."""
    reason = ""
    if options.objects is None:
        try:
            answer = question(os.path.join(options.run_dir, SOCKET), "services")
            return {server: Wanted(its["service"], its["real_servers"]) for server, its in answer.items()}, ""
        except EngineError as error:
            reason = str(error)
        except (TypeError, KeyError, AttributeError):
            reason = "the agent is of another release and does not name Services"
    try:
        return _from_manifests(options), ""
    except EngineError as error:
        return {}, "; ".join(text for text in (reason, str(error)) if text)


def _from_manifests(options: argparse.Namespace) -> dict[str, Wanted]:
    from .desired import this_node, wanted

    cluster, _source = this_node(options)
    state = wanted(cluster)
    weights: dict[str, dict[str, int]] = {}
    for key, value in state.get("real_server", {}).items():
        weights.setdefault(str(key.server), {})[endpoint(key.address, key.port)] = value.weight
    return {str(key): Wanted(cluster.port_of(key), weights.get(str(key), {})) for key in state["virtual_server"]}
