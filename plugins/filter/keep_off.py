# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Filter ``keep_off``: a patch that keeps a DaemonSet off nodes with a label."""

from __future__ import annotations

from typing import Any, Callable

from ansible.errors import AnsibleFilterError

DOCUMENTATION = r"""
name: keep_off
short_description: Keep a DaemonSet's pods off nodes with a label
version_added: 0.1.0
description:
  - Returns the patch (JSON merge patch, RFC 7396) that keeps the pods of a DaemonSet off all nodes on which a label has
    a value. The rest of its node affinity stays as it is.
author:
  - The kubenode.ipvs maintainers (@kubenode)
positional: _input, label, value
options:
  _input:
    description:
      - The DaemonSet, as C(kubectl get -o json) prints it.
    type: dict
    required: true
  label:
    description:
      - The label's key.
    type: str
    required: true
  value:
    description:
      - The label's value.
    type: str
    required: true
"""

EXAMPLES = r"""
- name: Show what keeps kube-proxy off nodes that the agent serves
  ansible.builtin.debug:
    msg: >-
      {{ {'kind': 'DaemonSet', 'spec': {'template': {'spec': {}}}} |
      kubenode.ipvs.keep_off('kubenode.ipvs/proxy', 'agent') }}
"""

RETURN = r"""
_value:
  description: The patch, empty if the DaemonSet needs none.
  type: dict
"""

_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


def keep_off(daemonset: Any, label: str, value: str) -> dict[str, Any]:
    """Return the patch, empty if the DaemonSet needs none.

    Raises:
        AnsibleFilterError: the object is no DaemonSet.
    """
    try:
        pod = daemonset["spec"]["template"]["spec"]
    except (KeyError, TypeError):
        raise AnsibleFilterError("keep_off: expected a DaemonSet, found no spec.template.spec") from None
    affinity = ((pod.get("affinity") or {}).get("nodeAffinity") or {}).get(_REQUIRED) or {}
    away = {"key": label, "operator": "NotIn", "values": [value]}
    excludes = (away, {"key": label, "operator": "DoesNotExist"})
    # a node has to match one of the terms, so each of them must exclude it
    terms = affinity.get("nodeSelectorTerms") or [{}]
    new = [
        term
        if any(rule in excludes for rule in term.get("matchExpressions") or ())
        else {**term, "matchExpressions": [*(term.get("matchExpressions") or ()), away]}
        for term in terms
    ]
    if new == terms:
        return {}
    required = {_REQUIRED: {"nodeSelectorTerms": new}}
    return {"spec": {"template": {"spec": {"affinity": {"nodeAffinity": required}}}}}


class FilterModule:
    """Filters of this file."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        """Return the filters by name."""
        return {"keep_off": keep_off}
