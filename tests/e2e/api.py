# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Client of the API server, for the stand-ins of cluster DNS and load balancer."""

from __future__ import annotations

import json
import ssl
import urllib.error
import urllib.parse
import urllib.request
from typing import Any

Object = dict[str, Any]


class Api:
    """Client with a token."""

    def __init__(self, url: str, authority: str, token: str) -> None:
        self._url = url
        self._token = token
        self._context = ssl.create_default_context(cadata=authority)

    def get(self, path: str, **query: str) -> Object | None:
        """Return the document at a path, None if it does not exist."""
        return self._ask("GET", f"{path}?{urllib.parse.urlencode(query)}" if query else path, None)

    def patch(self, path: str, change: Object) -> Object | None:
        """Merge a change into the document at a path; return None if it does not exist."""
        return self._ask("PATCH", path, json.dumps(change).encode())

    def _ask(self, method: str, path: str, body: bytes | None) -> Object | None:
        headers = {"Authorization": f"Bearer {self._token}", "Content-Type": "application/merge-patch+json"}
        request = urllib.request.Request(f"{self._url}{path}", body, headers, method=method)
        try:
            with urllib.request.urlopen(request, timeout=30, context=self._context) as answer:
                document: Object = json.load(answer)
                return document
        except urllib.error.HTTPError as error:
            if error.code == 404:
                return None
            raise
