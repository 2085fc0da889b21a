# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Filter ``kubeconfig_cluster``: the API server of a kubeconfig, without its credentials."""

from __future__ import annotations

import posixpath
from typing import Any, Callable

import yaml
from ansible.errors import AnsibleFilterError

DOCUMENTATION = r"""
name: kubeconfig_cluster
short_description: Read the API server of a kubeconfig
version_added: 0.1.0
description:
  - Returns the API server of a kubeconfig's current context and the certificate authority to verify it. Returns no
    credential. Errors show no part of the kubeconfig.
  - The role P(kubenode.ipvs.agent#role) uses it to read the kubelet's kubeconfig.
author:
  - The kubenode.ipvs maintainers (@kubenode)
positional: _input
options:
  _input:
    description:
      - The text of the kubeconfig.
    type: str
    required: true
  path:
    description:
      - The path of the kubeconfig, for messages and for relative names of files in it.
    type: path
    default: kubeconfig
"""

EXAMPLES = r"""
- name: Show the API server of a kubeconfig
  ansible.builtin.debug:
    msg: >-
      {{ {'current-context': 'c', 'contexts': [{'name': 'c', 'context': {'cluster': 'k'}}],
      'clusters': [{'name': 'k', 'cluster': {'server': 'https://192.0.2.10:6443'}}]} | to_json
      | kubenode.ipvs.kubeconfig_cluster }}
"""

RETURN = r"""
_value:
  description: The API server.
  type: dict
  contains:
    cluster:
      description: >-
        The cluster's fields C(server), C(certificate-authority-data) and C(tls-server-name), those that the kubeconfig
        has.
      type: dict
    authority_file:
      description: The file with the certificate authority, empty if the kubeconfig has the authority itself or none.
      type: str
"""

_KEPT = ("server", "certificate-authority-data", "tls-server-name")


def kubeconfig_cluster(text: str, path: str = "kubeconfig") -> dict[str, Any]:
    """Return the API server of the current context.

    Raises:
        AnsibleFilterError: the text is no kubeconfig, or its current context names no server.
    """
    try:
        document = yaml.safe_load(text)
    except yaml.YAMLError:
        raise AnsibleFilterError(f"{path}: it is not YAML, expected a kubeconfig") from None
    try:
        context = _named(document, "contexts", "context", document["current-context"])
        cluster = _named(document, "clusters", "cluster", context["cluster"])
        server = cluster["server"]
    except (KeyError, TypeError, StopIteration):
        raise AnsibleFilterError(f"{path}: the current context names no API server, expected a kubeconfig") from None
    if not str(server).startswith("https://"):
        raise AnsibleFilterError(f"{path}: server is {server}, expected https://")
    has_data = bool(cluster.get("certificate-authority-data"))
    file = "" if has_data else cluster.get("certificate-authority") or ""
    return {
        "cluster": {key: str(cluster[key]) for key in _KEPT if cluster.get(key)},
        "authority_file": posixpath.join(posixpath.dirname(path), file) if file else "",
    }


def _named(document: Any, list_name: str, field: str, name: str) -> Any:
    return next(entry[field] for entry in document[list_name] if entry["name"] == name)


class FilterModule:
    """Filters of this file."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        """Return the filters by name."""
        return {"kubeconfig_cluster": kubeconfig_cluster}
