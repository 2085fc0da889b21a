# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Object store: Services, EndpointSlices and the Node object as last read, with the problems of each."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Callable

from ..errors import InputError
from ..kubernetes.endpoint_slice import parse_slice
from ..kubernetes.fields import identity
from ..kubernetes.node import parse_node
from ..kubernetes.objects import EndpointSlice, Node, Remark, Service
from ..kubernetes.service import parse_service
from .node_facts import NodeFacts
from .service_vips import Name

API_SERVERS = ("default", "kubernetes")  # the Service whose endpoints are the API servers
ObjectName = tuple[str, str]  # kind, "namespace/name" (a Node: "name")


class ObjectStore:
    """Holds the objects, and marks the Services that a change concerns.

    Args:
        facts: the node.
        facts_changed: called after the Node object or the addresses of the API servers changed.
    """

    def __init__(self, facts: NodeFacts, facts_changed: Callable[[], None]) -> None:
        self._given_facts = facts
        self._facts_changed = facts_changed
        self.node: Node | None = None  # the Node object of this node
        self._left = False  # the Node object was deleted
        self._services: dict[Name, Service] = {}
        self._slices: dict[Name, dict[str, EndpointSlice]] = {}  # by Service, then by name
        self._slice_service: dict[Name, Name] = {}
        self._broken: dict[ObjectName, tuple[str, ...]] = {}
        # values that kube-proxy reads otherwise than they look; the objects are served
        self.warnings: dict[ObjectName, tuple[str, ...]] = {}
        self._dirty: set[Name] = set()

    def services(self) -> Mapping[Name, Service]:
        """Return the Services that a proxy serves, by namespace and name."""
        return self._services

    def slices_of(self, name: Name) -> list[EndpointSlice]:
        """Return the EndpointSlices of a Service, in the order of their names."""
        found = self._slices.get(name, {})
        return [found[key] for key in sorted(found)]

    def put(self, obj: Mapping[str, Any]) -> None:
        """Add or replace an object; objects of other kinds are ignored.

        A broken object counts as absent, and ``problems`` says why.

        Raises:
            InputError: the object has no name, so that no message could name it.
        """
        kind = obj.get("kind")
        if kind == "Service":
            self._put_service(obj)
        elif kind == "EndpointSlice":
            self._put_slice(obj)
        elif kind == "Node":
            self._put_node(obj)

    def remove(self, kind: str, namespace: str, name: str) -> None:
        """Remove an object; an absent one is no error."""
        if kind == "Service":
            self._report((kind, f"{namespace}/{name}"), [])
            if self._services.pop((namespace, name), None) is not None:
                self._dirty.add((namespace, name))
        elif kind == "EndpointSlice":
            self._report((kind, f"{namespace}/{name}"), [])
            self._store_slice((namespace, name), None)
        elif kind == "Node" and name == self._given_facts.name:
            self._report((kind, name), [])
            self._left = self._left or self.node is not None
            self._set_node(None)

    def _put_service(self, obj: Mapping[str, Any]) -> None:
        name = identity("Service", obj)
        service: Service | None = None
        remarks: list[Remark] = []
        try:
            service, remarks = parse_service(obj)
        except InputError as error:
            remarks = [Remark(str(error), False)]
        self._report(("Service", f"{name[0]}/{name[1]}"), remarks)
        if service is None:
            if self._services.pop(name, None) is not None:
                self._dirty.add(name)
        elif self._services.get(name) != service:
            self._services[name] = service
            self._dirty.add(name)

    def _put_slice(self, obj: Mapping[str, Any]) -> None:
        name = identity("EndpointSlice", obj)
        piece: EndpointSlice | None = None
        remarks: list[Remark] = []
        try:
            piece, remarks = parse_slice(obj)
        except InputError as error:
            remarks = [Remark(str(error), False)]
        self._report(("EndpointSlice", f"{name[0]}/{name[1]}"), remarks)
        self._store_slice(name, piece)

    def _store_slice(self, name: Name, piece: EndpointSlice | None) -> None:
        service = self._slice_service.get(name)
        wanted = (piece.namespace, piece.service) if piece is not None else None
        if service is not None and service != wanted:
            del self._slice_service[name]
            slices = self._slices[service]
            del slices[name[1]]
            if not slices:
                del self._slices[service]
            self._dirty.add(service)
        if piece is not None and wanted is not None:
            slices = self._slices.setdefault(wanted, {})
            if slices.get(name[1]) != piece:
                slices[name[1]] = piece
                self._slice_service[name] = wanted
                self._dirty.add(wanted)
        if API_SERVERS in (service, wanted):
            self._facts_changed()

    def _put_node(self, obj: Mapping[str, Any]) -> None:
        name = identity("Node", obj)[1]
        if name != self._given_facts.name:
            return
        node: Node | None = None
        remarks: list[Remark] = []
        try:
            node, remarks = parse_node(obj)
        except InputError as error:
            remarks = [Remark(str(error), False)]
        self._report(("Node", name), remarks)
        self._left = False
        self._set_node(node)

    def _set_node(self, node: Node | None) -> None:
        if node != self.node:
            self.node = node
            self._facts_changed()

    def _report(self, name: ObjectName, remarks: list[Remark]) -> None:
        """Replace the problems and warnings of an object."""
        for harmless, known_ones in ((False, self._broken), (True, self.warnings)):
            texts = tuple(remark.text for remark in remarks if remark.harmless is harmless)
            if texts:
                known_ones[name] = texts
            else:
                known_ones.pop(name, None)
