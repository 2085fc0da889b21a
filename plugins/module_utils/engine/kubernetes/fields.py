# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Reading fields of plain dictionaries: what is missing, and what has the wrong type, is said by name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..errors import InputError
from .net import canonical
from .objects import PROTOCOLS

Fields = Mapping[str, Any]
SERVICE_NAME_LABEL = "kubernetes.io/service-name"
# Objects with one of these labels are another proxy's, or nobody's (kube-proxy's label selector on its watches).
NOT_OURS = ("service.kubernetes.io/service-proxy-name", "service.kubernetes.io/headless")
_NAME = "a name of letters, digits, '-' and '.'"
_NAMES: dict[type, str] = {dict: "a mapping", list: "a list", str: "text", int: "an integer", bool: "true or false"}


def identity(kind: str, obj: Fields) -> tuple[str, str]:
    """Return (namespace, name); a namespaced object without a namespace is in ``default``.

    Raises:
        InputError: there is no name, or none that Kubernetes would take.
    """
    metadata = obj.get("metadata")
    name = metadata.get("name") if isinstance(metadata, dict) else None
    if not isinstance(metadata, dict) or not _is_name(name):
        raise InputError(f"a {kind}", "metadata.name", name, _NAME)
    namespace = metadata.get("namespace") or "default"
    if not _is_name(namespace):
        raise InputError(f"{kind} {name}", "metadata.namespace", namespace, _NAME)
    return namespace, str(name)


def _is_name(text: object) -> bool:
    return isinstance(text, str) and text.isascii() and text.replace("-", "").replace(".", "").isalnum()


def read(subject: str, fields: Fields, path: str, kind: type, default: Any) -> Any:
    """Return the field at the end of ``path``, or ``default`` if it is absent or null.

    Args:
        subject: what the fields belong to, for the message.
        fields: the mapping that has the field.
        path: the field's full path; the text behind the last dot is its key.
        kind: the type that it must have (``bool`` does not pass as ``int``).
        default: what an absent field means.

    Raises:
        InputError: it has another type.
    """
    value = fields.get(path[path.rfind(".") + 1 :])
    if value is None:
        return default
    if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
        raise InputError(subject, path, value, _NAMES[kind])
    return value


def texts(subject: str, fields: Fields, path: str) -> list[str]:
    """Return a list of texts.

    Raises:
        InputError: it is not a list, or has something else in it.
    """
    value = read(subject, fields, path, list, [])
    for index, item in enumerate(value):
        if not isinstance(item, str):
            raise InputError(subject, f"{path}[{index}]", item, "text")
    return list(value)


def port_number(subject: str, path: str, value: object, lowest: int = 1) -> int:
    """Check and return a port.

    Raises:
        InputError: it is not an integer from ``lowest`` to 65535.
    """
    if not isinstance(value, int) or isinstance(value, bool) or not lowest <= value <= 65535:
        raise InputError(subject, path, value, f"a port from {lowest} to 65535")
    return value


def protocol(subject: str, path: str, value: object) -> str:
    """Return a protocol in lower case; TCP if none is given.

    Raises:
        InputError: it is none that a Service can have.
    """
    found = PROTOCOLS.get(value or "TCP") if value is None or isinstance(value, str) else None
    if found is None:
        raise InputError(subject, path, value, "TCP, UDP or SCTP")
    return found


def address(subject: str, path: str, value: object) -> str:
    """Return a canonical address.

    Raises:
        InputError: it is not an address.
    """
    try:
        return canonical(value)
    except ValueError:
        raise InputError(subject, path, value, "an IPv4 or IPv6 address") from None


def labels(obj: Fields) -> Fields:
    """Return the labels of an object, or nothing."""
    found = obj["metadata"].get("labels")
    return found if isinstance(found, dict) else {}


def notes(obj: Fields) -> Fields:
    """Return the annotations of an object, or nothing."""
    found = obj["metadata"].get("annotations")
    return found if isinstance(found, dict) else {}


def ours(obj: Fields) -> bool:
    """Tell whether no label says that another proxy, or none, serves this Service or EndpointSlice."""
    found = obj["metadata"].get("labels")
    if not isinstance(found, dict):
        return True
    return NOT_OURS[0] not in found and NOT_OURS[1] not in found
