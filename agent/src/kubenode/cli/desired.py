# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Desired state from the command line's options, for the commands that work without the running agent."""

from __future__ import annotations

import argparse
import os
import sys
from typing import Callable

from ..configuration import load
from ..engine.desired.cluster import Cluster
from ..engine.desired.node_facts import NodeFacts
from ..engine.desired.settings import Config
from ..engine.errors import EngineError, InputError
from ..engine.model import State
from ..manifests.directory import Manifests
from ..paths import CONFIG, SNAPSHOT, STATE

Report = Callable[[str], None]


def complain(text: str) -> None:
    """Print a warning on standard error."""
    print(f"kubenode: {text}", file=sys.stderr)


def configuration(options: argparse.Namespace, report: Report = complain) -> Config:
    """Return the configuration; its warnings go to ``report``."""
    config, warnings = load(options.config or CONFIG, required=options.config is not None)
    for warning in warnings if options.config is not None else ():
        report(warning)
    return config


def manifests(path: str, report: Report = complain) -> Manifests:
    """Return the manifests at ``path``, read.

    Raises:
        EngineError: a file cannot be read. The desired state of only some objects would be wrong.
    """
    source = Manifests(path)
    source.scan()
    if source.waiting:
        raise EngineError(source.waiting)
    if source.unknown:
        raise EngineError("; ".join(source.problems[name] for name in sorted(source.unknown)))
    for problem in source.problems.values():
        report(problem)
    return source


def usual_objects(config: Config) -> str:
    """Return the default path of the objects: the manifests' directory, or the snapshot of the Kubernetes API."""
    return os.path.join(STATE, SNAPSHOT) if config.source == "kubernetes" else config.manifests_directory


def cluster(config: Config, facts: NodeFacts, source: Manifests, report: Report = complain) -> Cluster:
    """Return the cluster of all objects; problems of single objects go to ``report``."""
    desired = Cluster(config, facts)
    desired.use_api_servers(_api_servers(config, source.path, report))
    for item in source.objects():
        try:
            desired.put(item)
        except InputError as error:
            report(str(error))
    for texts in (*desired.problems.values(), *desired.warnings.values()):
        for text in texts:
            report(text)
    return desired


def _api_servers(config: Config, objects: str, report: Report) -> frozenset[str]:
    """Return the API servers' addresses that configuration, kubeconfig and the agent's snapshot name."""
    if config.source != "kubernetes":
        return frozenset()
    from ..manifests.api_servers import named, remembered

    addresses, trouble = named(config.kubernetes_kubeconfig or config.kubeconfig, config.kubernetes_server)
    if trouble:
        report(trouble)
    return addresses | remembered(objects)


def this_node(options: argparse.Namespace, report: Report = complain) -> tuple[Cluster, Manifests]:
    """Return the cluster for the local node, and its manifests."""
    from ..engine.proxy import node

    config = configuration(options, report)
    source = manifests(options.objects or usual_objects(config), report)
    facts = node.facts(options.node or config.hostname_override or node.name())
    return cluster(config, facts, source, report), source


def wanted(cluster: Cluster) -> State:
    """Return the desired state of the local node, without items that its kernel cannot hold."""
    from ..engine.kernel.ipv6 import possible

    return possible(cluster.state())
