# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""``kubenode explain`` on node1 of the traffic cluster, and what a real connection shows beside it."""

from __future__ import annotations

import contextlib
import io
import json
from typing import Any

from kubenode.cli import main

from ..processes.namespace import inside
from .cluster import Cluster
from .conversation import FORBIDDEN, REFUSED, SILENCE, UNREACHABLE, Target, ask
from .network import HOSTS, LOCAL_PODS, NODE

QUICK = 0.7  # seconds to wait for silence
TRIES = 3


def explain(cluster: Cluster, *words: str, form: str = "json") -> tuple[int, str, str]:
    """Run the command on node1; return exit status, output and errors."""
    options = [*cluster.agent.options(), "--objects", str(cluster.agent.manifests), "--format", form]
    output, errors = io.StringIO(), io.StringIO()
    with inside(NODE), contextlib.redirect_stdout(output), contextlib.redirect_stderr(errors):
        try:
            status = main(["explain", *words, *options])
        except SystemExit as ended:
            status = int(ended.code or 0)
    return status, output.getvalue(), errors.getvalue()


def explained(cluster: Cluster, *words: str) -> dict[str, Any]:
    """Return the explanation of a flow."""
    status, output, errors = explain(cluster, *words)
    assert output, errors
    answer = json.loads(output)
    assert status == {"arrives": 0, "fault": 1, "unknown": 2}[answer["verdict"]]
    return dict(answer)


def words_of(where: str, target: Target) -> tuple[str, ...]:
    """Return the words for a flow from a pod or machine."""
    address = f"[{target.address}]" if target.family == 6 else target.address
    source = "node" if where == NODE else HOSTS[where].ip[target.family]
    return target.protocol, source, f"{address}:{target.port}"


def wanted_answers(answer: dict[str, Any]) -> set[str]:
    """Return the answers of a connection that agree with an explanation."""
    names = {address: name for name, host in HOSTS.items() for address in host.ip.values()}
    predicted = answer["predicted"]
    if predicted == "delivered":
        found = set()
        for target in answer["targets"]:
            address = target["real_server"].rpartition(":")[0].strip("[]")
            name = names.get(address, address)
            found.add(SILENCE if target["problem"] else f"{'host' if name == NODE else name} sees {target['client']}")
        return found
    if predicted == "refused":
        return {REFUSED, FORBIDDEN}
    if predicted == "dropped":
        return {SILENCE}
    if predicted == "node":
        return {REFUSED, f"host sees {answer['source']}"}
    return {UNREACHABLE, SILENCE, REFUSED}


def asked(where: str, target: Target, wanted: set[str]) -> str:
    """Return the answer of a real connection; it waits long unless silence is expected."""
    if SILENCE in wanted:
        return ask(where, target, timeout=QUICK)
    return ask(where, target)


def is_local(where: str) -> bool:
    """Tell whether a client is a pod of node1."""
    return where in LOCAL_PODS
