# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Parse text into objects: YAML or JSON, one document or many, single objects, lists of them, and ``List`` kinds.

JSON parses a hundred times faster than YAML. For a large cluster, run ``kubectl`` with ``-o json``. PyYAML is imported
only if a document is YAML.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from sys import intern
from typing import Any, NamedTuple

from ..engine.errors import MOST_SHOWN, cut, shown
from .bounded_json import TOO_DEEP, bounded, integer

Object = dict[str, Any]

# The kinds that the agent reads, and the API version of each. Objects of other kinds in a file are ignored.
API_VERSIONS = {"Service": "v1", "EndpointSlice": "discovery.k8s.io/v1", "Node": "v1"}
_CLUSTER_WIDE = ("Node",)
_MOST_CONDITIONS = 1000  # different combinations; only 27 have a meaning


class ObjectKey(NamedTuple):
    """Identity of an object; a Node's namespace is ""."""

    kind: str
    namespace: str
    name: str

    def __str__(self) -> str:
        """Return for example ``Service default/web``."""
        return f"{self.kind} {self.namespace}/{self.name}" if self.namespace else f"{self.kind} {self.name}"


class DocumentError(Exception):
    """Error for text that cannot be used: ``line`` (from 1; 0 if unknown), and the problem in ``what``."""

    def __init__(self, line: int, what: str) -> None:
        super().__init__(f"line {line}: {what}" if line else what)
        self.line = line
        self.what = what


def documents(text: str) -> list[tuple[int, Any]]:
    """Return each document in ``text`` with the line on which it begins; empty documents are left out.

    Raises:
        DocumentError: the text is neither YAML nor JSON.
    """
    numbered = _json(text) if text.lstrip()[:1] in ("{", "[") else _yaml(text)
    return [(line, document) for line, document in numbered if document is not None]


def objects(text: str) -> dict[ObjectKey, Object]:
    """Return the Services, EndpointSlices and Nodes in ``text``, without the fields that :func:`lean` drops.

    Raises:
        DocumentError: a document is not an object of the Kubernetes API, lacks its kind or name, has an unknown API
            version, or is listed twice.
    """
    by_key: dict[ObjectKey, Object] = {}
    for line, document in documents(text):
        for where, item in _every(line, document):
            try:
                key = key_of(item)
                if key in by_key:
                    raise ValueError(f"{key} is there twice")
            except ValueError as error:
                raise DocumentError(line, f"{where}: {error}" if where else str(error)) from None
            if key is not None:
                by_key[key] = lean(item)
    return by_key


def _every(line: int, document: Any) -> Iterator[tuple[str, Any]]:
    try:
        yield from _flatten(document, "", {})
    except RecursionError:  # since Python 3.13 JSON may be nested deeper than function calls
        raise DocumentError(line, TOO_DEEP) from None


def _flatten(document: Any, where: str, defaults: dict[str, str]) -> Iterator[tuple[str, Any]]:
    """Yield objects with their position in the document.

    Objects in a typed list (``ServiceList``) inherit its kind and version.
    """
    items: Any = None
    inner: dict[str, str] = {}
    if isinstance(document, list):
        items, label = document, where
    elif isinstance(document, dict) and isinstance(document.get("items"), list) and _kind(document).endswith("List"):
        items, label = document["items"], f"{where}items"
        kind = _kind(document)[: -len("List")]
        if kind:
            inner = {"kind": kind, "apiVersion": str(document.get("apiVersion", ""))}
    if items is None:
        yield where, {**defaults, **document} if isinstance(document, dict) else document
        return
    for index, item in enumerate(items):
        yield from _flatten(item, f"{label}[{index}]", inner)


def _kind(document: Object) -> str:
    kind = document.get("kind")
    return kind if isinstance(kind, str) else ""


def key_of(item: Any) -> ObjectKey | None:
    """Return the key of an object, or None if the agent does not read its kind."""
    if not isinstance(item, dict):
        raise ValueError(f"expected an object of the Kubernetes API, found {shown(item)}")
    kind = item.get("kind")
    if not isinstance(kind, str) or not kind:
        raise ValueError("kind is missing, expected for example Service or EndpointSlice")
    if kind not in API_VERSIONS:
        return None
    if item.get("apiVersion") != API_VERSIONS[kind]:
        raise ValueError(f"{kind}: apiVersion is {shown(item.get('apiVersion'))}, expected {API_VERSIONS[kind]!r}")
    metadata = item.get("metadata")
    name = metadata.get("name") if isinstance(metadata, dict) else None
    if not isinstance(metadata, dict) or not isinstance(name, str) or not name:
        raise ValueError(f"{kind}: metadata.name is missing")
    namespace = "" if kind in _CLUSTER_WIDE else metadata.get("namespace") or "default"
    if not isinstance(namespace, str):
        raise ValueError(f"{kind} {cut(name, MOST_SHOWN)}: metadata.namespace is {shown(namespace)}, expected a name")
    return ObjectKey(kind, namespace, name)


def lean(item: Object) -> Object:
    """Return the object with its namespace, and without the large fields that no proxy reads."""
    metadata = {
        key: value for key, value in item["metadata"].items() if key not in ("managedFields", "ownerReferences")
    }
    if item["kind"] not in _CLUSTER_WIDE:
        metadata["namespace"] = metadata.get("namespace") or "default"
    annotations = metadata.get("annotations")
    if isinstance(annotations, dict):
        metadata["annotations"] = {
            name: text
            for name, text in annotations.items()
            if name != "kubectl.kubernetes.io/last-applied-configuration"
        }
    if item["kind"] == "Node":  # its status has every image of the node, and changes with every heartbeat
        metadata.pop("annotations", None)
        status = item.get("status")
        item = {**item, "status": {"addresses": status.get("addresses")} if isinstance(status, dict) else status}
    return {**item, "metadata": metadata}


# A hundred thousand endpoints have few combinations of conditions, so they share the mappings.
_conditions: dict[tuple[Any, ...], Any] = {}


def smaller_endpoint(item: Object) -> Object:
    """Drop fields that no proxy reads from an endpoint, during parsing: they are most of a large cluster's text."""
    conditions = item.get("conditions")
    if isinstance(conditions, dict) and "addresses" in item:
        item.pop("targetRef", None)
        if len(_conditions) > _MOST_CONDITIONS:
            _conditions.clear()
        # Equal is not enough: 0 == False, and an invalid slice must not change the conditions of a valid one.
        key = (*conditions.items(), *map(type, conditions.values()))
        try:
            item["conditions"] = _conditions.setdefault(key, conditions)
        except TypeError:  # malformed conditions: the reader of the slice reports them
            pass
        node = item.get("nodeName")
        if isinstance(node, str):
            item["nodeName"] = intern(node)
    return item


_decoder = json.JSONDecoder(object_hook=smaller_endpoint, parse_int=integer)


def decode(text: str) -> Any:
    """Return a JSON document's value, within the bounds of :mod:`.bounded_json`.

    Raises:
        ValueError: the text is not JSON.
    """
    return _decoder.decode(bounded(text))


def _json(text: str) -> Iterator[tuple[int, Any]]:
    """Parse one JSON document, or several in a row, with or without YAML's ``---`` between them."""
    given, text = text, bounded(text)
    offset, end = 0, len(text)
    while True:
        while offset < end and (text[offset] in " \t\r\n" or text.startswith("\n---", offset - 1)):
            offset += 1 if text[offset] != "-" else 3
        if offset == end:
            return
        try:
            document, following = _decoder.raw_decode(text, offset)
        except json.JSONDecodeError as error:
            if text is not given:  # positions in the bounded text are not those in the file
                raise DocumentError(1, f"not valid JSON: {TOO_DEEP}") from None
            raise DocumentError(error.lineno, f"not valid JSON: {error.msg} (column {error.colno})") from None
        yield text.count("\n", 0, offset) + 1, document
        offset = following


def _yaml(text: str) -> Iterator[tuple[int, Any]]:
    try:
        import yaml
    except ImportError:
        what = "this is YAML, which needs PyYAML (python3-yaml); JSON is read without it"
        raise DocumentError(0, what) from None
    from . import plain_yaml

    try:
        yield from plain_yaml.load_all(text)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        what = " ".join(part for part in (error.context, error.problem) if part)
        raise DocumentError(mark.line + 1 if mark else 0, f"not valid YAML: {what}") from None
    except (yaml.YAMLError, ValueError) as error:
        raise DocumentError(0, f"not valid YAML: {error}") from None
    except RecursionError:
        raise DocumentError(0, f"not valid YAML: {TOO_DEEP}") from None
