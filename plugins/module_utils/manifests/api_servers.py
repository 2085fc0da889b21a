# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This module util is PRIVATE to the collection. It can change at any time, do not use it from outside.

"""Addresses of the API servers that a configuration, its kubeconfig or the agent's snapshot names.

For those who do not connect: module ``service_proxy`` and the command line. The agent also knows its connections.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from typing import Any
from urllib.parse import urlsplit

from ..engine.model.net import canonical
from .documents import DocumentError, documents

_MOST = 1 << 20  # bytes that are read of a file
_MAPPED = "::ffff:"


def host(url: str) -> str:
    """Return the host of a URL, "" if it has none."""
    try:
        return urlsplit(url).hostname or ""
    except ValueError:
        return ""


def addresses(texts: Iterable[str]) -> frozenset[str]:
    """Return the canonical addresses among these texts; others, such as host names, are left out."""
    return frozenset(filter(None, map(_address, texts)))


def named(kubeconfig: str, server: str) -> tuple[frozenset[str], str]:
    """Return the addresses in the configuration's URL or else the kubeconfig's, and what is wrong with the kubeconfig.

    Nothing is wrong with one that is not there: a state may be worked out on another machine than its node.

    Args:
        kubeconfig: its path, "" for none. Only the current context's cluster counts.
        server: the URL that goes before the kubeconfig's, "" for none.
    """
    urls, trouble = [server], ""
    try:
        cluster = _cluster(kubeconfig) if kubeconfig else {}
        urls = [server or str(cluster.get("server")), str(cluster.get("proxy-url"))]
    except FileNotFoundError:
        pass
    except OSError as error:
        trouble = f"cannot be read: {error.strerror}"
    except UnicodeDecodeError:
        trouble = "not text in UTF-8"
    except DocumentError as error:
        trouble = str(error)
    except LookupError:
        trouble = "expected a current-context with a cluster"
    if trouble:
        trouble = f"kubeconfig {kubeconfig}: {trouble}; the addresses of its API server are not reserved"
    return addresses(map(host, urls)), trouble


def remembered(path: str) -> frozenset[str]:
    """Return the addresses in the agent's snapshot: those of its configuration and of its connections."""
    try:
        with open(path, "rb", opener=_opened) as file:
            header = json.loads(file.readline(_MOST))
        return addresses([host(str(header["server"])), *map(str, header["peers"])])
    except (OSError, ValueError, LookupError, TypeError, RecursionError):
        return frozenset()  # who reads the objects in it says what is wrong with it


def _opened(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NONBLOCK | os.O_CLOEXEC)  # nobody waits for a pipe in its place


def _cluster(path: str) -> Mapping[str, Any]:
    with open(path, "rb", opener=_opened) as file:
        found = documents((file.read(_MOST) or b"").decode())
    config = found[0][1] if len(found) == 1 else None
    context = _entry(config, "contexts", "context", _value(config, "current-context"))
    return _entry(config, "clusters", "cluster", _value(context, "cluster"))


def _entry(config: Any, section: str, inner: str, name: Any) -> Mapping[str, Any]:
    items = _value(config, section)
    for item in items if isinstance(items, list) else ():
        if isinstance(item, Mapping) and item.get("name") == name and isinstance(item.get(inner), Mapping):
            found: Mapping[str, Any] = item[inner]
            return found
    raise LookupError(name)


def _value(mapping: Any, field: str) -> Any:
    return mapping.get(field) if isinstance(mapping, Mapping) else None


def _address(text: str) -> str:
    bare = text.partition("%")[0]
    try:
        return canonical(bare[len(_MAPPED) :] if bare.startswith(_MAPPED) and "." in bare else bare)
    except ValueError:
        return ""
