# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Desired state of this node, with its inputs: configuration, source of objects, and the cluster built from them."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from ...configuration import ConfigurationError, files, load
from ...engine.desired.cluster import Cluster
from ...engine.desired.object_store import ObjectName
from ...engine.desired.settings import Config
from ...engine.desired.vip_allocator import VipHolders
from ...engine.errors import EngineError
from ...engine.kernel.ipv6 import is_present, without_ipv6
from ...engine.model.ipvs import VirtualServerKey
from ...engine.plan import Conflict, Step
from ...engine.proxy.node import facts
from ...engine.proxy.node import name as host_name
from ...engine.proxy.rules_backend import IPTABLES, NFTABLES, choose
from ...log import Log
from ...manifests.directory import Changes, Manifests
from ...manifests.documents import Object
from ...paths import SNAPSHOT

if TYPE_CHECKING:
    from ...engine.desired.nft_changes import NftChanges

_NOTHING = Changes([], [])
_UNUSABLE = "object cannot be used as it is"
_RESPELLED = "object is used, but not as it is written"
_MENDED = "object problem resolved"


class Options(NamedTuple):
    """Options of the command line; "" leaves a value to the configuration file or to the node."""

    config: str
    config_required: bool
    manifests: str
    run: str
    state: str
    node: str
    adopt: bool


class Source(Protocol):
    """Source of objects; :class:`~..sources.manifests.Manifests` documents the attributes."""

    about: str
    path: str

    @property
    def waiting(self) -> str:
        """Return why no object is known yet, "" if some are."""

    @property
    def unknown(self) -> set[str]:
        """Return the parts whose objects are unknown."""

    @property
    def problems(self) -> dict[str, str]:
        """Return one sentence for each part that cannot be used, by name."""

    def objects(self) -> Iterator[Object]:
        """Yield every object."""

    def scan(self, names: Collection[str] | None = None) -> Changes:
        """Return the changes since the last call."""


def _of_cluster(kind: str, key: Any) -> tuple[str, Any]:
    """Return an item as the cluster names it, which knows members of IP sets and no elements of nftables."""
    if kind != "nft_element":
        return kind, key
    from ...engine.desired.nft_sets import member_of  # loaded with the first change

    member = member_of(key)
    return (kind, key) if member is None else ("member", member)


class DesiredState:
    """Desired state, from the last good configuration and the objects; unknown before :meth:`configure`.

    ``problems`` are the configuration file's, ``warnings`` too. ``rules_backend`` is the back end of the rules; a new
    configuration decides it anew. ``owned`` returns the agent's keys in the ledger by kind, for that decision.
    """

    def __init__(self, options: Options, log: Log, owned: Callable[[], Mapping[str, Collection[Any]]] = dict) -> None:
        self.config = Config()
        self.rules_backend = IPTABLES
        self.cluster: Cluster | None = None
        self.source: Source | None = None
        self.directory = options.state  # of files that outlive a reboot
        self.problems: list[str] = []
        self.warnings: list[str] = []
        self._options = options
        self._log = log
        self._reported: dict[str, str] = {}  # sentence -> the object that it is about
        self._owned = owned
        self._nft_changes: NftChanges | None = None
        self._fresh = False  # whether the cluster is new: items that it does not want are not desired

    @property
    def waiting(self) -> str:
        """Return the input that is missing before the desired state is known, "" for none."""
        if self.cluster is None or self.source is None:
            return "a configuration that can be used: " + "; ".join(self.problems)
        return self.source.waiting or self.elsewhere

    @property
    def blocked(self) -> str:
        """Return the problem that the operator must solve before the desired state is known.

        "" means that no input is missing, or that waiting may help.
        """
        if self.cluster is None or self.source is None:
            return "; ".join(self.problems) if any(map(os.path.exists, files(self._options.config))) else ""
        return str(getattr(self.source, "blocked", "")) if self.waiting else ""

    @property
    def elsewhere(self) -> str:
        """Return the labels (``nodeSelector``) whose lack leaves this node to another proxy, "" if none is missing."""
        if not self.config.node_selector or self.cluster is None:
            return ""
        labels = dict(self.cluster.node.labels) if self.cluster.node is not None else {}
        lacking = [f"{key}={value}" for key, value in self.config.node_selector if labels.get(key) != value]
        return f"the label {' and '.join(lacking)} on Node {self.cluster.facts.name} (nodeSelector)" if lacking else ""

    @property
    def complete(self) -> bool:
        """Tell whether the desired state is complete: only then may items be removed."""
        return self.source is not None and not self.source.unknown

    def configure(self) -> None:
        """Read the configuration and all objects.

        A configuration that cannot be used leaves the last good one in place.
        """
        try:
            config, warnings = load(self._options.config, required=self._options.config_required)
            if self.cluster is None or config != self.config:
                self._use(config)
        except EngineError as error:
            self.problems = error.problems if isinstance(error, ConfigurationError) else [str(error)]
            for problem in self.problems:
                self._log.error("configuration cannot be used", reason=problem)
        else:
            self.problems = []
            for warning in warnings:
                if warning not in self.warnings:
                    self._log.warning("configuration warning", reason=warning)
            self.warnings = warnings
        self.refresh()

    def _use(self, config: Config) -> None:
        node = self._options.node or config.hostname_override or host_name()
        cluster = Cluster(config, facts(node))
        chosen = choose(config.rules_backend, self._owned)
        if chosen.backend != self.rules_backend or self.cluster is None:
            self._log.info("rules back end chosen", backend=chosen.backend, reason=chosen.reason)
        source = self._source(config, node)
        if self.source is not source:
            self.close()
        self.config, self.cluster, self.source, self.rules_backend = config, cluster, source, chosen.backend
        self._fresh = True
        cluster.use_api_servers(getattr(source, "servers", ()))
        for item in source.objects():
            self._put(item)

    def _source(self, config: Config, node: str) -> Source:
        """Return the source that the configuration names; the present one if it is the same."""
        if config.source == "kubernetes" and not self._options.manifests:
            from ...sources.kubernetes.source import ApiOfNode, Kubernetes

            kubeconfig = config.kubernetes_kubeconfig or config.kubeconfig
            api = ApiOfNode(kubeconfig, config.kubernetes_server, node)
            if self.source is not None and self.source.path == api.describe():
                return self.source
            snapshot = os.path.join(self._options.state, SNAPSHOT)
            kubernetes = Kubernetes(api, snapshot, self._log)
            kubernetes.start()
            return kubernetes
        path = self._options.manifests or config.manifests_directory
        return self.source if self.source is not None and self.source.path == path else Manifests(path)

    def close(self) -> None:
        """Stop the source's background work."""
        close = getattr(self.source, "close", None)
        if close is not None:
            close()

    def refresh(self, names: set[str] | None = None) -> Changes:
        """Take changes from the source into the cluster (of the parts with these names, or of all parts)."""
        if self.source is None or self.cluster is None:
            return _NOTHING
        changes = self.source.scan(names)
        self.cluster.use_api_servers(getattr(self.source, "servers", ()))
        for key in changes.removed:
            self.cluster.remove(key.kind, key.namespace, key.name)
        for item in changes.put:
            self._put(item)
        return changes

    def _put(self, item: dict[str, Any]) -> None:
        if self.cluster is not None:
            try:
                self.cluster.put(item)
            except EngineError as error:
                metadata = item["metadata"]
                name = "/".join(str(metadata[field]) for field in ("namespace", "name") if metadata.get(field))
                for reason in self._log.first("object cannot be used", [str(error)]):
                    self._log.error("object cannot be used", object=name, reason=reason)

    def settling(self) -> Iterator[int]:
        """Work out changes in slices, yielding how many Services are left: :meth:`take` costs little then."""
        return iter(()) if self.cluster is None else self.cluster.settling()

    def take(self, holders: Callable[[], VipHolders] = dict) -> tuple[Mapping[str, Mapping[Any, Any]], bool]:
        """Return the changes of the desired state since the last call, and whether they are all of it.

        ``holders`` returns the persisted holders of virtual servers, which still hold them.

        Raises:
            KernelError: the kernel does not tell whether it has IPv6. The changes stay for the next call.
        """
        if self.cluster is None:
            return {}, False
        has_ipv6 = is_present()
        if self._fresh:
            self.cluster.resume(holders())
        nft = self._in_nftables() if self.rules_backend == NFTABLES else None
        fresh, self._fresh = self._fresh, False
        changes = self.cluster.take() if has_ipv6 else without_ipv6(self.cluster.take())
        if nft is not None:
            return (nft.whole(changes) if fresh else nft.changed(changes)), fresh
        return changes, fresh

    def _in_nftables(self) -> NftChanges:
        if self._nft_changes is None:
            from ...engine.desired.nft_changes import NftChanges  # late: iptables as the back end does not need it

            self._nft_changes = NftChanges()
        return self._nft_changes

    def take_holders(self) -> Mapping[VirtualServerKey, tuple[str, str] | None]:
        """Return the changed holders of virtual servers (:meth:`.Cluster.take_holders`).

        Only a virtual server that several Services may claim has a holder here.
        """
        return {} if self.cluster is None else self.cluster.take_holders()

    def report(self) -> None:
        """Log each problem and each remark about an object once, and report problems to the source.

        A tenant who writes objects controls the number and length of these lines. They have a quota, and ``kubenode
        status`` shows all of them.
        """
        if self.source is None or self.cluster is None:
            return
        objects = self.cluster.problems
        problems = {text: (_UNUSABLE, str(name[1])) for name, texts in objects.items() for text in texts}
        problems.update({text: (self.source.about, name) for name, text in self.source.problems.items()})
        problems.update(
            {text: (_RESPELLED, str(name[1])) for name, texts in self.cluster.warnings.items() for text in texts}
        )
        fresh: dict[str, list[str]] = {}
        for text, (about, _name) in problems.items():
            if text not in self._reported:
                fresh.setdefault(about, []).append(text)
        for about, texts in fresh.items():
            say = self._log.warning if about == _RESPELLED else self._log.error
            for text in self._log.first(about, texts):
                say(about, object=problems[text][1], reason=text)
        gone = [text for text in self._reported if text not in problems]
        for text in self._log.first(_MENDED, gone) if gone else ():
            self._log.info(_MENDED, object=self._reported[text], reason=text)
        if fresh or gone:
            self._reported = {text: name for text, (_about, name) in problems.items()}
        tell = getattr(self.source, "report", None)
        if tell is not None:
            tell(objects)

    @property
    def reported(self) -> Mapping[str, str]:
        """Return the problems and remarks as :meth:`report` logged them last: each sentence with its object.

        A change makes another mapping.
        """
        return self._reported

    def use_health_check_errors(self, errors: Mapping[ObjectName, tuple[str, ...]]) -> None:
        """Add errors of health check node ports, by Service, to the problems of objects."""
        if self.cluster is not None:
            self.cluster.health_check_errors = errors

    def objects(self, about: Iterable[Step | Conflict]) -> list[dict[str, str]]:
        """Return further fields of a log line about each step or conflict.

        The field is ``object``: the Services that the item exists for. It is absent if there are none.
        """
        items = [_of_cluster(each.kind, each.key) for each in about]
        services = self.cluster.whose(items) if self.cluster is not None else {}
        return [{"object": services[item]} if item in services else {} for item in items]

    def use_node(self) -> None:
        """Read the node's addresses again.

        Raises:
            EngineError: they cannot be read.
        """
        if self.cluster is not None:
            self.cluster.set_facts(facts(self.cluster.facts.name))
