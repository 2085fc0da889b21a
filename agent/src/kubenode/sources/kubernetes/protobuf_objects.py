# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Watch events and Status documents in Kubernetes' protobuf, decoded to the values that their JSON has.

The tables follow ``generated.proto`` of Kubernetes 1.36 in k8s.io/api (core/v1, discovery/v1) and k8s.io/apimachinery
(meta/v1, runtime, intstr). They have the fields that :mod:`.objects` keeps.

A wait of a minute usually passes before the first event, so the reflector imports this module with that event.
"""

from __future__ import annotations

import time
from typing import Any

from .protobuf import (
    Message,
    ProtobufError,
    boolean,
    converted,
    decode,
    integer,
    message,
    nested,
    raw,
    repeated,
    shared,
    shared_text,
    text,
    text_map,
    texts,
)

_MAGIC = b"k8s\0"
_EARLIEST, _LATEST = -62135596800, 253402300799  # seconds of the years 1 and 9999, the bounds of RFC 3339


def _time(value: dict[str, Any]) -> str | None:
    """Return a time as RFC 3339, without fractions, as Kubernetes does."""
    seconds = value.get("seconds")
    if seconds is None:
        return None
    if not _EARLIEST <= seconds <= _LATEST:
        raise ProtobufError(f"a time is {seconds} s, expected a year from 1 to 9999")
    year, month, day, hour, minute, second = time.gmtime(seconds)[:6]
    return f"{year:04d}-{month:02d}-{day:02d}T{hour:02d}:{minute:02d}:{second:02d}Z"


def _number_or_text(value: dict[str, Any]) -> int | str:
    chosen: int | str = value.get("strVal", "") if value.get("type") == 1 else value.get("intVal", 0)
    return chosen


_TIME = message(integer(1, "seconds", 64, keep=True))
_INT_OR_STRING = message(integer(1, "type", 64), integer(2, "intVal"), text(3, "strVal"))

_OBJECT_META = message(
    text(1, "name"),
    text(3, "namespace"),
    text(5, "uid"),
    text(6, "resourceVersion"),
    converted(8, "creationTimestamp", _TIME, _time),
    converted(9, "deletionTimestamp", _TIME, _time),
    integer(10, "deletionGracePeriodSeconds", 64, keep=True),
    text_map(11, "labels"),
    text_map(12, "annotations"),
)
_CONDITION = message(
    text(1, "type", keep=True),
    text(2, "status", keep=True),
    integer(3, "observedGeneration", 64),
    converted(4, "lastTransitionTime", _TIME, _time),
    text(5, "reason", keep=True),
    text(6, "message", keep=True),
)

_SERVICE_PORT = message(
    text(1, "name"),
    text(2, "protocol"),
    integer(3, "port", keep=True),
    converted(4, "targetPort", _INT_OR_STRING, _number_or_text),
    integer(5, "nodePort"),
    text(6, "appProtocol", keep=True),
)
_SERVICE_SPEC = message(
    repeated(1, "ports", _SERVICE_PORT),
    text_map(2, "selector"),
    text(3, "clusterIP"),
    text(4, "type"),
    texts(5, "externalIPs"),
    text(7, "sessionAffinity"),
    text(8, "loadBalancerIP"),
    texts(9, "loadBalancerSourceRanges"),
    text(10, "externalName"),
    text(11, "externalTrafficPolicy"),
    integer(12, "healthCheckNodePort"),
    boolean(13, "publishNotReadyAddresses"),
    nested(
        14, "sessionAffinityConfig", message(nested(1, "clientIP", message(integer(1, "timeoutSeconds", keep=True))))
    ),
    text(17, "ipFamilyPolicy", keep=True),
    texts(18, "clusterIPs"),
    texts(19, "ipFamilies"),
    boolean(20, "allocateLoadBalancerNodePorts", keep=True),
    text(21, "loadBalancerClass", keep=True),
    text(22, "internalTrafficPolicy", keep=True),
    text(23, "trafficDistribution", keep=True),
)
_PORT_STATUS = message(integer(1, "port", keep=True), text(2, "protocol", keep=True), text(3, "error", keep=True))
_INGRESS = message(text(1, "ip"), text(2, "hostname"), text(3, "ipMode", keep=True), repeated(4, "ports", _PORT_STATUS))
_SERVICE_STATUS = message(
    nested(1, "loadBalancer", message(repeated(1, "ingress", _INGRESS))),
    repeated(2, "conditions", _CONDITION),
)

_ENDPOINT_CONDITIONS = message(
    boolean(1, "ready", keep=True), boolean(2, "serving", keep=True), boolean(3, "terminating", keep=True)
)
_FOR_NAME = message(text(1, "name", keep=True))  # ForZone, ForNode
_ENDPOINT = message(  # without targetRef, which is dropped from JSON, too
    texts(1, "addresses"),
    shared(2, "conditions", _ENDPOINT_CONDITIONS),
    text(3, "hostname", keep=True),
    text_map(5, "deprecatedTopology"),
    shared_text(6, "nodeName"),
    shared_text(7, "zone"),
    shared(8, "hints", message(repeated(1, "forZones", _FOR_NAME), repeated(2, "forNodes", _FOR_NAME))),
    addresses=None,
)
_ENDPOINT_PORT = message(
    text(1, "name", keep=True),
    text(2, "protocol", keep=True),
    integer(3, "port", keep=True),
    text(4, "appProtocol", keep=True),
)

_TAINT = message(
    text(1, "key", keep=True),
    text(2, "value"),
    text(3, "effect", keep=True),
    converted(4, "timeAdded", _TIME, _time),
)
_NODE_SPEC = message(
    text(1, "podCIDR"),
    text(2, "externalID"),
    text(3, "providerID"),
    boolean(4, "unschedulable"),
    repeated(5, "taints", _TAINT),
    texts(7, "podCIDRs"),
)
_NODE_ADDRESS = message(text(1, "type", keep=True), text(2, "address", keep=True))

_CAUSE = message(text(1, "reason"), text(2, "message"), text(3, "field"))
_DETAILS = message(
    text(1, "name"),
    text(2, "group"),
    text(3, "kind"),
    repeated(4, "causes", _CAUSE),
    integer(5, "retryAfterSeconds"),
    text(6, "uid"),
)

_TABLES: dict[tuple[str, str], Message] = {
    ("v1", "Service"): message(
        nested(1, "metadata", _OBJECT_META), nested(2, "spec", _SERVICE_SPEC), nested(3, "status", _SERVICE_STATUS)
    ),
    ("discovery.k8s.io/v1", "EndpointSlice"): message(
        nested(1, "metadata", _OBJECT_META),
        repeated(2, "endpoints", _ENDPOINT),
        repeated(3, "ports", _ENDPOINT_PORT),
        text(4, "addressType", keep=True),
        endpoints=None,
        ports=None,
    ),
    ("v1", "Node"): message(
        nested(1, "metadata", _OBJECT_META),
        nested(2, "spec", _NODE_SPEC),
        nested(3, "status", message(repeated(5, "addresses", _NODE_ADDRESS))),
    ),
    ("v1", "Status"): message(
        nested(1, "metadata", message(text(2, "resourceVersion"))),
        text(2, "status"),
        text(3, "message"),
        text(4, "reason"),
        nested(5, "details", _DETAILS),
        integer(6, "code"),
    ),
}
_TYPE_META = message(text(1, "apiVersion"), text(2, "kind"))
_UNKNOWN = message(nested(1, "typeMeta", _TYPE_META), raw(2, "raw"), text(3, "contentEncoding"))
_WATCH_EVENT = message(text(1, "type"), nested(2, "object", message(raw(1, "raw"))))


def decode_event(frame: bytes) -> dict[str, Any]:
    """Return a watch event: its type and its object.

    Raises:
        ProtobufError: the frame is malformed, or the object is of a kind that the agent does not read.
    """
    event = decode(frame, _WATCH_EVENT)
    return {"type": event.get("type", ""), "object": decode_object(event.get("object", {}).get("raw", b""))}


def decode_object(data: bytes) -> dict[str, Any]:
    """Return an object with its kind and API version.

    Raises:
        ProtobufError: the data is malformed, or the object is of a kind that the agent does not read.
    """
    if data[:4] != _MAGIC:
        raise ProtobufError("an object does not begin with k8s\\0")
    unknown = decode(data[4:], _UNKNOWN)
    if unknown.get("contentEncoding"):
        raise ProtobufError(f"an object is encoded as {unknown['contentEncoding'][:40]!r}, expected no encoding")
    meta = unknown.get("typeMeta", {})
    version, kind = meta.get("apiVersion", ""), meta.get("kind", "")
    table = _TABLES.get((version, kind))
    if table is None:
        raise ProtobufError(f"an object is a {kind[:40]!r} of {version[:40]!r}, expected a kind that the agent reads")
    return {"kind": kind, "apiVersion": version, **decode(unknown.get("raw", b""), table)}
