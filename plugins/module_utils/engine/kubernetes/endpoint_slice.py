# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""An EndpointSlice, from what the Kubernetes API returns. A large cluster has a hundred thousand endpoints: tight loops."""

from __future__ import annotations

from sys import intern
from typing import Any

from ..errors import InputError
from .net import canonical
from .objects import READY, SERVING, TERMINATING, Endpoint, EndpointSlice
from .objects_fields import SERVICE_NAME_LABEL, Fields, identity, labels, notes, ours, port_number, protocol, read

WEIGHT = "kubenode.ipvs/weight"
MOST_ENDPOINTS = 1000  # of one slice, as the API server has it
MOST_WEIGHT = 65535
_FAMILIES = {"IPv4": 4, "IPv6": 6}
_HINTS = ("forZones", "forNodes")


def parse_slice(obj: Fields) -> tuple[EndpointSlice | None, list[str]]:
    """Read an EndpointSlice.

    Returns:
        The slice, or None if a proxy has nothing to do for it; and what is wrong with single endpoints, which are left out.

    Raises:
        InputError: the slice as a whole cannot be used.
    """
    namespace, name = identity("EndpointSlice", obj)
    subject = f"EndpointSlice {namespace}/{name}"
    kind = obj.get("addressType")
    if not ours(obj) or kind == "FQDN":
        return None, []
    family = _FAMILIES.get(kind) if isinstance(kind, str) else None
    if family is None:
        raise InputError(subject, "addressType", kind, "IPv4 or IPv6")
    service = labels(obj).get(SERVICE_NAME_LABEL)
    if not isinstance(service, str) or not service:
        raise InputError(subject, f"label {SERVICE_NAME_LABEL}", service, "the name of the Service that the slice belongs to")
    endpoints = read(subject, obj, "endpoints", list, [])
    if len(endpoints) > MOST_ENDPOINTS:
        raise InputError(subject, "endpoints", f"{len(endpoints)} endpoints", f"at most {MOST_ENDPOINTS}; use several slices")
    remarks: list[str] = []
    found = _endpoints(subject, endpoints, family, remarks)
    ports = _ports(subject, read(subject, obj, "ports", list, []))
    return EndpointSlice(namespace, name, service, family, ports, found, _weight(subject, notes(obj))), remarks


def _ports(subject: str, items: list[Any]) -> dict[tuple[str, str], int]:
    found: dict[tuple[str, str], int] = {}
    for index, item in enumerate(items):
        path = f"ports[{index}]"
        if not isinstance(item, dict):
            raise InputError(subject, path, item, "a mapping")
        kind = protocol(subject, f"{path}.protocol", item.get("protocol"))
        number = item.get("port")
        if number is None or (number == 0 and number is not False):
            continue  # none ("all ports") and 0 are nothing that a Service's port could be mapped to
        name = read(subject, item, f"{path}.name", str, "")
        found[intern(name), kind] = port_number(subject, f"{path}.port", number)
    return found


def _endpoints(subject: str, items: list[Any], family: int, remarks: list[str]) -> tuple[Endpoint, ...]:
    found = []
    make = Endpoint._make
    six = family == 6
    for index, item in enumerate(items):
        try:
            address = item["addresses"][0]  # kube-proxy uses the first one only, and the API says that this is right
            if (":" in address) is not six:
                remarks.append(f"{subject}: endpoints[{index}].addresses[0] is {address!r}, expected an IPv{family} address")
                continue
            address = canonical(address)
            flags = READY | SERVING
            conditions = item.get("conditions")
            if conditions:
                if conditions.get("ready") is False:
                    flags = SERVING
                if conditions.get("serving") is False:
                    flags &= ~SERVING
                if conditions.get("terminating"):
                    flags |= TERMINATING
            hints = item.get("hints")
            zones, nodes = _hints(hints) if hints else ((), ())
            found.append(make((address, intern(item.get("nodeName") or ""), flags, zones, nodes)))
        except ValueError:
            remarks.append(f"{subject}: endpoints[{index}].addresses[0] is {address!r}, expected an IPv{family} address")
        except (TypeError, KeyError, IndexError, AttributeError):
            remarks.append(f"{subject}: endpoints[{index}] is {item!r}, expected an endpoint with an address")
    return tuple(found)


def _hints(hints: Fields) -> tuple[tuple[str, ...], tuple[str, ...]]:
    zones, nodes = (tuple(intern(entry["name"]) for entry in hints.get(key) or ()) for key in _HINTS)
    return zones, nodes


def _weight(subject: str, given: Fields) -> int:
    text = given.get(WEIGHT)
    if text is None:
        return 1
    if not isinstance(text, str) or not text.isascii() or not text.isdigit() or int(text) > MOST_WEIGHT:
        raise InputError(subject, f"annotation {WEIGHT}", text, f"a number from 0 to {MOST_WEIGHT}")
    return int(text)
