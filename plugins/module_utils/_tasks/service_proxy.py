# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This module util is PRIVATE to the collection. It can change at any time, do not use it from outside.

"""Options of ``service_proxy``, converted to model items.

The task converges the node once, as the agent's ``kubenode apply`` does.
"""

from __future__ import annotations

import json
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any, ClassVar

from ansible.module_utils.common.warnings import warn

from .._confirm.protocol import CONFIRM
from .._module.argspec import STATE
from .._module.planning import TaskChange
from .._module.task import ConfirmableTask
from ..engine.desired.cluster import Cluster
from ..engine.desired.settings import AGENT, KUBE_PROXY, parse
from ..engine.errors import EngineError
from ..engine.kernel import sysctls
from ..engine.kernel.ipv6 import possible
from ..engine.kernel.tables import TABLES
from ..engine.model import kinds as model
from ..engine.plan.order import translations_last
from ..engine.proxy import saved_sysctls
from ..engine.proxy.hitless import hitless
from ..engine.proxy.node import Node, facts
from ..engine.proxy.node import name as host_name
from ..engine.proxy.rules_backend import spelled
from ..engine.proxy.takeover import balanced_by_rules, keys_to_read, left_behind, superseded
from ..manifests import documents
from ..manifests.directory import Manifests

if TYPE_CHECKING:
    from collections.abc import Collection
    from contextlib import AbstractContextManager

    from ansible.module_utils.basic import AnsibleModule

    from .._module.planning import LedgerView
    from ..engine.ledger import Item
    from ..engine.model import State
    from ..engine.plan import Plan

KINDS = ("link", "set", "chain", "jump", "nft_table", "virtual_server", "address", "route")


class Task(ConfirmableTask):
    """Task of ``service_proxy``: the state for objects and configuration, or the removal of the owner's items."""

    spec: ClassVar[dict[str, Any]] = {
        "objects": {"type": "list", "elements": "dict", "default": []},
        "src": {"type": "path"},
        "config": {"type": "dict", "default": {}},
        "agent_config": {"type": "dict", "default": {}},
        "invalid_objects": {"type": "str", "choices": ["fail", "skip"], "default": "fail"},
        "node_name": {"type": "str"},
        "owner": {"type": "str", "default": "service_proxy"},
        "adopt": {"type": "bool", "default": False},
        **CONFIRM,
        **STATE,
    }

    def __init__(self, module: AnsibleModule, params: dict[str, Any]) -> None:
        super().__init__(module, params)
        self.tables = dict(TABLES)
        self.purge = "owned"  # the desired state is complete: remove the owner's other items
        self._leaves = params["state"] == "absent"
        self._setting, self._wanted = ("", {}) if self._leaves else desired(params)
        self._want: State = {}
        self._takes_over = self.adopt and not self._leaves
        self._by_rules = False
        self._have: State = {}
        self._node = Node(precise=True)

    def read(self, view: LedgerView) -> State:
        owned = view.owned
        if not self._leaves:
            self._want = spelled(self._wanted, self._setting, lambda: owned)
        have = {}
        if self._want or any(owned.values()):  # otherwise read nothing: the node may have no IPVS
            have = self._node.read(self._want, keys_to_read(owned, self._takes_over))
        if self._leaves and view.ledger:
            have.update(sysctls.read(saved_sysctls.names(view.ledger, self.owner)))
        return have

    def change(self, have: State, view: LedgerView) -> TaskChange:
        self._have = have
        left = left_behind(have, view.others) if self._takes_over else {}
        absent = superseded(left, self._want)
        scope = {kind: view.owned.get(kind, set()) for kind in KINDS}
        if self._leaves:
            back = saved_sysctls.wanted_back(view.ledger, self.owner, have) if view.ledger else {}
            names = saved_sysctls.names(view.ledger, self.owner) if view.ledger else []
            return TaskChange(back, absent, scope, common=back, released={"sysctl": names})
        self._by_rules = self._takes_over and balanced_by_rules(have)
        return TaskChange(self._want, absent, scope, common={"sysctl": set(self._want.get("sysctl", ()))})

    def reread(self, items: Collection[Item]) -> State:
        asked: dict[str, dict[Any, None]] = {}
        for kind, key in items:
            asked.setdefault(kind, {})[key] = None
            parent = model.KINDS[kind].parent
            if parent:
                above, above_of = parent
                asked.setdefault(above, {})[above_of(key)] = None
        return Node(precise=True).read(asked, {})

    def refine(self, made: Plan) -> Plan:
        if self._leaves:  # sysctls change last, when no item needs them any more
            return made._replace(steps=sorted(made.steps, key=lambda step: step.kind == "sysctl"))
        steps = hitless(made.steps, self._have)
        # kube-proxy's rules balance until the virtual servers exist
        return made._replace(steps=translations_last(steps) if self._by_rules else steps)

    def noted(self, made: Plan, view: LedgerView) -> AbstractContextManager[None]:
        if self._leaves or not made.steps:
            return nullcontext()
        return saved_sysctls.noted(view.open_ledger, self.owner, made.steps)


def desired(params: dict[str, Any]) -> tuple[str, State]:
    """Return ``rules.backend``, and the state that the objects and the configuration ask for on this node.

    Raises:
        EngineError: the configuration or, unless ``invalid_objects`` is "skip", an object cannot be used; the text
            lists every reason.
    """
    kube_proxy = {"apiVersion": KUBE_PROXY[0], "kind": KUBE_PROXY[1], "mode": "ipvs", **params["config"]}
    agent = {"apiVersion": AGENT[0], "kind": AGENT[1], **params["agent_config"]}
    config, warnings = parse([kube_proxy, agent])
    for warning in warnings:
        warn(f"config: {warning}")
    if any((config.tcp_timeout, config.tcp_fin_timeout, config.udp_timeout)):
        warn("config: this module sets no IPVS timeouts; kubenode.ipvs.ipvs_services has the option timeouts")
    name = params["node_name"] or config.hostname_override or host_name()
    cluster = Cluster(config, facts(name))
    if config.source == "kubernetes":
        from ..manifests.api_servers import named

        servers, trouble = named(config.kubernetes_kubeconfig or config.kubeconfig, config.kubernetes_server)
        cluster.use_api_servers(servers)
        if trouble:
            warn(f"config: {trouble}")
    for item in given_objects(params["objects"], params["src"]):
        cluster.put(item)
    problems = [text for texts in cluster.problems.values() for text in texts]
    if problems and params["invalid_objects"] == "fail":
        raise EngineError("; ".join(problems) + "; nothing was changed")
    for problem in problems:
        warn(f"left out: {problem}")
    for texts in cluster.warnings.values():
        for text in texts:
            warn(text)
    return config.rules_backend, possible(cluster.state())


def given_objects(given: list[Any] | None, path: str | None) -> Collection[dict[str, Any]]:
    """Return the Services, EndpointSlices and Nodes in a list of objects and in files.

    Raises:
        EngineError: an object cannot be read, or is listed twice.
    """
    try:
        objects = documents.objects(json.dumps(given)) if given else {}
    except documents.DocumentError as error:
        raise EngineError(f"objects{error.what}; nothing was changed") from None
    if path:
        source = Manifests(path)
        source.scan()
        problems = [source.waiting] if source.waiting else list(source.problems.values())
        if problems:
            raise EngineError("src: " + "; ".join(problems))
        read = {key: item for item in source.objects() if (key := documents.key_of(item)) is not None}
        doubled = [str(key) for key in read if key in objects]
        if doubled:
            raise EngineError(
                f"in objects and in {path}: {', '.join(doubled)}; name each object once; nothing was changed"
            )
        objects.update(read)
    return objects.values()
