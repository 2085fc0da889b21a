# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Read fields of plain dictionaries, with errors that name the field.

A field that is missing, of the wrong type or too large costs only its object.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import wraps
from typing import Any, Callable, TypeVar

from ..errors import InputError, shown
from ..model.net import lenient
from .objects import PROTOCOLS, Remark

Fields = Mapping[str, Any]
Parsed = TypeVar("Parsed")
SERVICE_NAME_LABEL = "kubernetes.io/service-name"
# kube-proxy's label selectors (kubernetes: cmd/kube-proxy/app/server.go), since 1.36 one for Services and one for
# EndpointSlices.
SERVICE_PROXY_LABEL = "service.kubernetes.io/service-proxy-name"
HEADLESS_LABEL = "service.kubernetes.io/headless"
LONGEST_NAME = 253  # characters, the API's limit
# characters of a field or annotation; no field that a proxy reads needs more than a hundred
MOST_TEXT = 4096
MOST_ITEMS = 10000  # of a list
MOST_REMARKS = 10  # about one object: a slice may have a thousand broken endpoints
_NAME = f"a name of letters, digits, '-' and '.', at most {LONGEST_NAME} characters"
_NAMES: dict[type, str] = {dict: "a mapping", list: "a list", str: "text", int: "an integer", bool: "true or false"}


def contained(
    kind: str,
) -> Callable[[Callable[[Fields], tuple[Parsed, list[Remark]]]], Callable[[Fields], tuple[Parsed, list[Remark]]]]:
    """Return a decorator for parsers: they then raise only InputError, and return few remarks.

    Only here, an unforeseen exception becomes a problem of one object. Later code can rely on it.
    """

    def decorate(
        parse: Callable[[Fields], tuple[Parsed, list[Remark]]],
    ) -> Callable[[Fields], tuple[Parsed, list[Remark]]]:
        @wraps(parse)
        def parsed(obj: Fields) -> tuple[Parsed, list[Remark]]:
            try:
                value, remarks = parse(obj)
            except InputError:
                raise
            except Exception as error:
                reason = f"{type(error).__name__}: {error}"
                expected = "fields as the Kubernetes API documents them; please report this message"
                raise InputError(subject_of(kind, identity(kind, obj)), "the object", reason, expected) from None
            return value, [*_few(remarks, harmless=False), *_few(remarks, harmless=True)]

        return parsed

    return decorate


def _few(remarks: list[Remark], harmless: bool) -> list[Remark]:
    chosen = [remark for remark in remarks if remark.harmless is harmless]
    left = len(chosen) - MOST_REMARKS
    if left <= 0:
        return chosen
    name = chosen[0].text.partition(": ")[0]
    return [*chosen[:MOST_REMARKS], Remark(f"{name}: and {left} more of this kind", harmless)]


def subject_of(kind: str, name: tuple[str, str]) -> str:
    """Return the name of an object in messages, for example ``Service shop/web`` or ``Node n1``."""
    return f"{kind} {name[1]}" if kind == "Node" else f"{kind} {name[0]}/{name[1]}"


def identity(kind: str, obj: Fields) -> tuple[str, str]:
    """Return (namespace, name); a namespaced object without a namespace is in ``default``.

    Raises:
        InputError: the name is absent, or Kubernetes would refuse it.
    """
    metadata = obj.get("metadata") if isinstance(obj, Mapping) else None
    name = metadata.get("name") if isinstance(metadata, dict) else None
    if not isinstance(metadata, dict) or not _is_name(name):
        raise InputError(f"a {kind}", "metadata.name", name, _NAME)
    namespace = metadata.get("namespace") or "default"
    if not _is_name(namespace):
        raise InputError(f"{kind} {name}", "metadata.namespace", namespace, _NAME)
    return namespace, str(name)


def _is_name(text: object) -> bool:
    if not isinstance(text, str) or len(text) > LONGEST_NAME or not text.isascii():
        return False
    return text.replace("-", "").replace(".", "").isalnum()


def read(subject: str, fields: Fields, path: str, kind: type, default: Any) -> Any:
    """Return the field at the end of ``path``, or ``default`` if it is absent or null.

    Args:
        subject: the object's name in messages.
        fields: the mapping that has the field.
        path: the field's full path; the text after the last dot is its key.
        kind: the required type (``bool`` does not pass as ``int``).
        default: the value of an absent field.

    Raises:
        InputError: the field has another type, or is too large.
    """
    value = fields.get(path[path.rfind(".") + 1 :])
    if value is None:
        return default
    if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
        raise InputError(subject, path, value, _NAMES[kind])
    if isinstance(value, str):
        _check_length(subject, path, value)
    elif isinstance(value, list) and len(value) > MOST_ITEMS:
        raise InputError(subject, path, f"{len(value)} items", f"at most {MOST_ITEMS}")
    return value


def _check_length(subject: str, path: str, text: str) -> None:
    if len(text) > MOST_TEXT:
        raise InputError(subject, path, text, f"at most {MOST_TEXT} characters")


def texts(subject: str, fields: Fields, path: str) -> list[str]:
    """Return a list of texts.

    Raises:
        InputError: the field is no list, or has another element than a text.
    """
    value = read(subject, fields, path, list, [])
    for index, item in enumerate(value):
        if not isinstance(item, str):
            raise InputError(subject, f"{path}[{index}]", item, "text")
        _check_length(subject, f"{path}[{index}]", item)
    return list(value)


def annotation(subject: str, obj: Fields, name: str) -> str | None:
    """Return an annotation, or None if absent.

    Raises:
        InputError: it is not text, or too long.
    """
    value = notes(obj).get(name)
    if value is None:
        return None
    if not isinstance(value, str):
        raise InputError(subject, f"annotation {name}", value, "text")
    _check_length(subject, f"annotation {name}", value)
    return value


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
        InputError: a Service cannot have it.
    """
    name = PROTOCOLS.get(value or "TCP") if value is None or isinstance(value, str) else None
    if name is None:
        raise InputError(subject, path, value, "TCP, UDP or SCTP")
    return name


def address(subject: str, path: str, value: object, remarks: list[Remark]) -> str:
    """Return a canonical address; add a remark if only kube-proxy's lenient reading accepts it.

    Raises:
        InputError: it is not an address.
    """
    try:
        text, plain = lenient(value)
    except ValueError:
        raise InputError(subject, path, value, "an IPv4 or IPv6 address") from None
    if not plain:
        remarks.append(respelled(subject, path, value, text))
    return text


def respelled(subject: str, path: str, value: object, meaning: str) -> Remark:
    """Return the remark about an address or network with leading zeros, or an IPv4-mapped one.

    kube-proxy reads it as another address than it seems.
    """
    return Remark(f"{subject}: {path} has {shown(value)}, which is read as {meaning} (write it like that)", True)


def filled(subject: str, path: str, values: list[str], remarks: list[Remark]) -> list[str]:
    """Return the values that are not blank; one remark counts the blank ones, which kube-proxy skips."""
    kept = [value for value in values if value.strip()]
    blanks = len(values) - len(kept)
    if blanks:
        remarks.append(
            Remark(f"{subject}: {path} has {blanks} blank {'entry' if blanks == 1 else 'entries'}, skipped", True)
        )
    return kept


def labels(obj: Fields) -> Fields:
    """Return the labels of an object, or nothing."""
    labels = obj["metadata"].get("labels")
    return labels if isinstance(labels, dict) else {}


def notes(obj: Fields) -> Fields:
    """Return the annotations of an object, or nothing."""
    annotations = obj["metadata"].get("annotations")
    return annotations if isinstance(annotations, dict) else {}


def has_label(obj: Fields, name: str) -> bool:
    """Tell whether an object has a label, whatever its value."""
    return name in labels(obj)
