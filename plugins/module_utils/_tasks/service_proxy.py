# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This module util is PRIVATE to the collection. It can change at any time, do not use it from outside.

"""Options of ``service_proxy``, converted to model items.

The task does once what the agent's ``kubenode apply`` does.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from ansible.module_utils.common.warnings import warn

from .._module.argspec import check_owner
from .._module.task import TaskChange
from ..engine.desired.cluster import Cluster
from ..engine.desired.settings import AGENT, KUBE_PROXY, parse
from ..engine.errors import EngineError
from ..engine.kernel import sysctls
from ..engine.kernel.ipv6 import possible
from ..engine.kernel.tables import TABLES
from ..engine.model import kinds as model
from ..engine.plan.order import rules_last
from ..engine.proxy import node as proxy_node
from ..engine.proxy import saved_sysctls
from ..engine.proxy.takeover import SETS, balanced_by_rules, left_behind
from ..manifests import documents
from ..manifests.directory import Manifests

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from .._module.task import LedgerView, Prepared
    from ..engine.ledger import Item
    from ..engine.model import State
    from ..engine.plan import Plan

KINDS = ("link", "set", "chain", "jump", "virtual_server", "address", "route")


class RulesLast:
    """Has rules change when virtual servers serve: where kube-proxy's rules balance until then."""

    told = ()

    @staticmethod
    def refine(made: Plan) -> Plan:
        """Return the plan in that order."""
        return made._replace(steps=rules_last(made.steps))


class SysctlsLast:
    """Has sysctls change when nothing serves any more that needs them."""

    told = ()

    @staticmethod
    def refine(made: Plan) -> Plan:
        """Return the plan in that order."""
        return made._replace(steps=sorted(made.steps, key=lambda step: step.kind == "sysctl"))


def prepare(params: dict[str, Any]) -> Prepared:
    """Return how to read, what is wanted and how to write, for :func:`._converge.run`."""
    check_owner(params["owner"])
    params["purge"] = "owned"  # this is all that the owner wants
    leaves = params["state"] == "absent"
    want = {} if leaves else desired(params)
    adopt = params["adopt"] and not leaves
    node = proxy_node.Node(precise=True)

    def read(around: LedgerView) -> State:
        owned = around.owned
        have = {}
        if want or any(owned.values()):  # otherwise nothing is asked of a node that has no IPVS
            have = node.read(want, {**owned, "set": {*owned.get("set", ()), *SETS}} if adopt else owned)
        if leaves and around.ledger:
            have.update(sysctls.read(saved_sysctls.names(around.ledger, params["owner"])))
        return have

    def wish(have: State, around: LedgerView) -> TaskChange:
        left = left_behind(have, around.others) if adopt else {}
        absent = {kind: keys - want.get(kind, {}).keys() for kind, keys in left.items()}
        scope = {kind: around.owned.get(kind, set()) for kind in KINDS}
        if leaves:
            back = saved_sysctls.wanted_back(around.ledger, params["owner"], have) if around.ledger else {}
            return TaskChange(back, absent, {}, scope, SysctlsLast, back, bool(around.ledger))
        order = RulesLast if adopt and balanced_by_rules(have) else None
        return TaskChange(want, absent, {}, scope, order, {"sysctl": set(want.get("sysctl", ()))})

    return read, wish, TABLES


def reread(items: Iterable[Item]) -> State:
    """Return what there is of (kind, key) pairs, and what stands beside them."""
    asked: dict[str, dict[Any, None]] = {}
    for kind, key in items:
        asked.setdefault(kind, {})[key] = None
        parent = model.KINDS[kind].parent
        if parent:
            above, above_of = parent
            asked.setdefault(above, {})[above_of(key)] = None
    return proxy_node.Node(precise=True).read(asked, {})


def desired(params: dict[str, Any]) -> State:
    """Return the state that the objects and the configuration ask for on this node.

    Raises:
        EngineError: the configuration or, unless ``invalid_objects`` is "skip", an object cannot be used; the text has
            every reason.
    """
    kube_proxy = {"apiVersion": KUBE_PROXY[0], "kind": KUBE_PROXY[1], "mode": "ipvs", **params["config"]}
    agent = {"apiVersion": AGENT[0], "kind": AGENT[1], **params["agent_config"]}
    config, warnings = parse([kube_proxy, agent])
    for warning in warnings:
        warn(f"config: {warning}")
    if any((config.tcp_timeout, config.tcp_fin_timeout, config.udp_timeout)):
        warn("config: this module sets no IPVS timeouts; kubenode.ipvs.ipvs_services has the option timeouts")
    name = params["node_name"] or config.hostname_override or proxy_node.name()
    cluster = Cluster(config, proxy_node.facts(name))
    if config.source == "kubernetes":
        from ..manifests.api_servers import named

        servers, trouble = named(config.kubernetes_kubeconfig or config.kubeconfig, config.kubernetes_server)
        cluster.use_api_servers(servers)
        if trouble:
            warn(f"config: {trouble}")
    for item in found_objects(params["objects"], params["src"]):
        cluster.put(item)
    problems = [text for texts in cluster.problems.values() for text in texts]
    if problems and params["invalid_objects"] == "fail":
        raise EngineError("; ".join(problems) + "; nothing was changed")
    for problem in problems:
        warn(f"left out: {problem}")
    for texts in cluster.warnings.values():
        for text in texts:
            warn(text)
    return possible(cluster.state())


def found_objects(given: list[Any] | None, path: str | None) -> Collection[dict[str, Any]]:
    """Return the Services, EndpointSlices and Nodes in a list of objects and in files.

    Raises:
        EngineError: one cannot be read, or is there twice.
    """
    try:
        found = documents.objects(json.dumps(given)) if given else {}
    except documents.DocumentError as error:
        raise EngineError(f"objects{error.what}; nothing was changed") from None
    if path:
        source = Manifests(path)
        source.scan()
        problems = [source.waiting] if source.waiting else list(source.problems.values())
        if problems:
            raise EngineError("src: " + "; ".join(problems))
        read = {key: item for item in source.objects() if (key := documents.key_of(item)) is not None}
        doubled = [str(key) for key in read if key in found]
        if doubled:
            raise EngineError(
                f"in objects and in {path}: {', '.join(doubled)}; name each object once; nothing was changed"
            )
        found.update(read)
    return found.values()
