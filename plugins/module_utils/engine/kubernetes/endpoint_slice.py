# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Parse an EndpointSlice of the Kubernetes API.

A large cluster has a hundred thousand endpoints, so the loops are tight.
"""

from __future__ import annotations

from collections.abc import Iterator
from sys import intern
from typing import Any

from ..errors import InputError, shown
from ..model.net import MAPPED, canonical, lenient
from .fields import (
    HEADLESS_LABEL,
    LONGEST_NAME,
    SERVICE_NAME_LABEL,
    Fields,
    annotation,
    contained,
    has_label,
    identity,
    labels,
    port_number,
    protocol,
    read,
    respelled,
)
from .objects import READY, SERVING, TERMINATING, Endpoint, EndpointSlice, Remark

WEIGHT = "kubenode.ipvs/weight"
MOST_ENDPOINTS = 1000  # of one slice, the API server's limit
MOST_WEIGHT = 65535
MOST_HINTS = 100  # of one endpoint and kind; the API has eight
_FAMILIES = {"IPv4": 4, "IPv6": 6}
_HINTS = ("forZones", "forNodes")


@contained("EndpointSlice")
def parse_slice(obj: Fields) -> tuple[EndpointSlice | None, list[Remark]]:
    """Parse an EndpointSlice.

    Returns:
        The slice, or None if a proxy ignores it; and remarks about endpoints that are left out, or whose address is
            read otherwise than it looks.

    Raises:
        InputError: the slice as a whole cannot be used.
    """
    namespace, name = identity("EndpointSlice", obj)
    subject = f"EndpointSlice {namespace}/{name}"
    kind = obj.get("addressType")
    if has_label(obj, HEADLESS_LABEL) or kind == "FQDN":
        return None, []
    family = _FAMILIES.get(kind) if isinstance(kind, str) else None
    if family is None:
        raise InputError(subject, "addressType", kind, "IPv4 or IPv6")
    service = labels(obj).get(SERVICE_NAME_LABEL)
    if not isinstance(service, str) or not 0 < len(service) <= LONGEST_NAME:
        raise InputError(
            subject, f"label {SERVICE_NAME_LABEL}", service, "the name of the Service that the slice belongs to"
        )
    given = obj.get("endpoints")
    if isinstance(given, list) and len(given) > MOST_ENDPOINTS:
        raise InputError(
            subject, "endpoints", f"{len(given)} endpoints", f"at most {MOST_ENDPOINTS}; use several slices"
        )
    endpoints = read(subject, obj, "endpoints", list, [])
    remarks: list[Remark] = []
    usable = _endpoints(subject, endpoints, family, remarks)
    ports = _ports(subject, read(subject, obj, "ports", list, []))
    return EndpointSlice(namespace, name, service, family, ports, usable, _weight(subject, obj)), remarks


def _ports(subject: str, items: list[Any]) -> dict[tuple[str, str], int]:
    ports: dict[tuple[str, str], int] = {}
    for index, item in enumerate(items):
        path = f"ports[{index}]"
        if not isinstance(item, dict):
            raise InputError(subject, path, item, "a mapping")
        kind = protocol(subject, f"{path}.protocol", item.get("protocol"))
        number = item.get("port")
        if number is None or (number == 0 and number is not False):
            continue  # absent ("all ports") and 0 cannot be the target of a Service's port
        name = read(subject, item, f"{path}.name", str, "")
        ports[intern(name), kind] = port_number(subject, f"{path}.port", number)
    return ports


def _endpoints(subject: str, items: list[Any], family: int, remarks: list[Remark]) -> tuple[Endpoint, ...]:
    endpoints = []
    make = Endpoint._make
    six = family == 6
    for index, item in enumerate(items):
        try:
            address = item["addresses"][0]  # only the first counts, as in kube-proxy and by the API's definition
            try:
                if (":" in address) is not six:
                    raise ValueError
                ip = canonical(address)
                if six and ip.startswith(MAPPED):
                    raise ValueError
            except ValueError:
                ip = _respelled(f"{subject}: endpoints[{index}].addresses[0]", address, six, remarks)
                if not ip:
                    continue
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
            node = item.get("nodeName") or ""
            if len(node) > LONGEST_NAME:
                raise ValueError
            endpoints.append(make((ip, intern(node), flags, zones, nodes)))
        except Exception:  # a malformed endpoint must not cost the others
            remarks.append(
                Remark(f"{subject}: endpoints[{index}] is {shown(item)}, expected an endpoint with an address", False)
            )
    return tuple(endpoints)


def _respelled(where: str, address: str, six: bool, remarks: list[Remark]) -> str:
    """Return an address in unusual spelling as kube-proxy reads it, "" if it is not of the slice's family.

    Both cases add a remark.
    """
    try:
        ip = lenient(address)[0]
    except ValueError:
        ip = ""
    if not ip or (":" in ip) is not six:
        expected = f"expected an IPv{6 if six else 4} address"
        remarks.append(Remark(f"{where} is {shown(address)}, {expected}", False))
        return ""
    subject, _colon, path = where.partition(": ")
    remarks.append(respelled(subject, path, address, ip))
    return ip


def _hints(hints: Fields) -> tuple[tuple[str, ...], tuple[str, ...]]:
    zones, nodes = (tuple(_hinted(hints.get(key) or ())) for key in _HINTS)
    return zones, nodes


def _hinted(entries: Any) -> Iterator[str]:
    if len(entries) > MOST_HINTS:
        raise ValueError
    for entry in entries:
        name = entry["name"]
        if len(name) > LONGEST_NAME:
            raise ValueError
        yield intern(name)


def _weight(subject: str, obj: Fields) -> int:
    text = annotation(subject, obj, WEIGHT)
    if text is None:
        return 1
    if not text.isascii() or not text.isdigit() or len(text) > len(str(MOST_WEIGHT)) or int(text) > MOST_WEIGHT:
        raise InputError(subject, f"annotation {WEIGHT}", text, f"a number from 0 to {MOST_WEIGHT}")
    return int(text)
