# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Records of the cluster's domain, from Services and EndpointSlices as the API server returns them."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from .settings import DOMAIN

if TYPE_CHECKING:
    from collections.abc import Callable

    from .api import Object

SERVICES = "/api/v1/namespaces/{}/services/{}"
SLICES = "/apis/discovery.k8s.io/v1/namespaces/{}/endpointslices"
_SERVICE_NAME = "kubernetes.io/service-name"


class Records(NamedTuple):
    """Answer to a name: addresses of both families, or the name that it stands for."""

    addresses: tuple[str, ...] = ()
    alias: str = ""


def lookup(name: str, get: Callable[..., Object | None]) -> Records | None:
    """Return the records of a name, None if the name does not exist.

    Names are ``service.namespace.svc.DOMAIN`` and, for an endpoint, ``hostname.service.namespace.svc.DOMAIN``.

    Args:
        name: name in small letters, without a dot at its end.
        get: returns the document at a path of the API, with a query; None if it does not exist.
    """
    labels = name.removesuffix(f".svc.{DOMAIN}").split(".")
    if not name.endswith(f".svc.{DOMAIN}") or len(labels) not in (2, 3):
        return None
    *hostname, service_name, namespace = labels
    service = get(SERVICES.format(namespace, service_name))
    if service is None:
        return None
    spec = service["spec"]
    if spec["type"] == "ExternalName":
        return None if hostname else Records(alias=spec["externalName"])
    if spec.get("clusterIP") != "None":
        return None if hostname else Records(tuple(spec.get("clusterIPs", [])))
    listed = get(SLICES.format(namespace), labelSelector=f"{_SERVICE_NAME}={service_name}") or {}
    return _headless(spec, listed.get("items", []), hostname)


def _headless(spec: Object, slices: list[Object], hostname: list[str]) -> Records | None:
    unready_too = spec.get("publishNotReadyAddresses", False)
    endpoints = [
        endpoint
        for each in slices
        for endpoint in each.get("endpoints") or []
        if unready_too or endpoint.get("conditions", {}).get("ready") is not False
    ]
    if hostname:
        endpoints = [endpoint for endpoint in endpoints if endpoint.get("hostname") == hostname[0]]
        if not endpoints:
            return None
    return Records(tuple(sorted({endpoint["addresses"][0] for endpoint in endpoints})))
