# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This module util is PRIVATE to the collection. It can change at any time, do not use it from outside.

"""Addresses of the API servers that a configuration, its kubeconfig or the agent's snapshot names.

The module ``service_proxy`` and the command line use them, as they do not connect. The agent also knows the addresses
of its connections.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from typing import Any
from urllib.parse import urlsplit

from ..engine.model.net import canonical, unmapped
from .documents import DocumentError, documents

_MOST = 1 << 20  # bytes that are read of a file


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
    """Return the addresses in the configuration's URL or else the kubeconfig's, and a problem of the kubeconfig or "".

    A missing kubeconfig is no problem: the desired state may be computed on another machine than its node.

    Args:
        kubeconfig: its path, "" for none. Only the current context's cluster counts.
        server: the URL that overrides the kubeconfig's, "" for none.
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
        return frozenset()  # the reader of its objects reports the problem


def _opened(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NONBLOCK | os.O_CLOEXEC)  # a named pipe must not block


def _cluster(path: str) -> Mapping[str, Any]:
    with open(path, "rb", opener=_opened) as file:
        parsed = documents((file.read(_MOST) or b"").decode())
    _line, config = parsed[0] if len(parsed) == 1 else (0, None)
    context = _entry(config, "contexts", "context", _value(config, "current-context"))
    return _entry(config, "clusters", "cluster", _value(context, "cluster"))


def _entry(config: Any, section: str, inner: str, name: Any) -> Mapping[str, Any]:
    items = _value(config, section)
    for item in items if isinstance(items, list) else ():
        if isinstance(item, Mapping) and item.get("name") == name and isinstance(item.get(inner), Mapping):
            fields: Mapping[str, Any] = item[inner]
            return fields
    raise LookupError(name)


def _value(mapping: Any, field: str) -> Any:
    return mapping.get(field) if isinstance(mapping, Mapping) else None


def _address(text: str) -> str:
    try:
        return unmapped(canonical(text.partition("%")[0]))
    except ValueError:
        return ""
