# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Filter ``kubectl_access``: the kubectl command of an inventory, and the host and user that run it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Callable

from ansible.errors import AnsibleFilterError

DOCUMENTATION = r"""
name: kubectl_access
short_description: Choose the kubectl command of an inventory and its host
version_added: 0.1.0
description:
  - Returns the C(kubectl) command, the host that runs it, and whether root runs it.
  - In an inventory with Kubespray's groups C(k8s_cluster) and C(kube_control_plane), that is root of the first
    control-plane node, with C(/etc/kubernetes/admin.conf). Otherwise it is the controller, unless a host is given.
  - The roles P(kubenode.ipvs.agent#role) and P(kubenode.ipvs.migrate#role) use it.
author:
  - The kubenode.ipvs maintainers (@kubenode)
positional: _input, choices
options:
  _input:
    description:
      - The groups of the inventory with their hosts, the variable C(groups).
    type: dict
    required: true
  choices:
    description:
      - The variables of the roles, the preferred ones first. The first choice with a command or a host applies.
    type: list
    elements: dict
    required: true
    suboptions:
      command:
        description:
          - The C(kubectl) command with its options. Empty for the default.
        type: list
        elements: str
      host:
        description:
          - The host that runs it. Empty for the default.
        type: str
  bin_dir:
    description:
      - Kubespray's directory of programs. Empty to search for C(kubectl) in the path.
    type: str
    default: ""
"""

EXAMPLES = r"""
- name: Show where kubectl runs in an inventory of Kubespray
  ansible.builtin.debug:
    msg: >-
      {{ {'k8s_cluster': ['cp1', 'w1'], 'kube_control_plane': ['cp1']}
      | kubenode.ipvs.kubectl_access([{'command': [], 'host': ''}], bin_dir='/usr/local/bin') }}
"""

RETURN = r"""
_value:
  description: How to run C(kubectl).
  type: dict
  contains:
    argv:
      description: The command with its options.
      type: list
      elements: str
    host:
      description: The host that runs it.
      type: str
    become:
      description: Whether root runs it.
      type: bool
    kubespray:
      description: Whether the inventory has Kubespray's groups with a control-plane node.
      type: bool
"""

_ADMIN = "/etc/kubernetes/admin.conf"


def kubectl_access(
    groups: Mapping[str, Sequence[str]], choices: Sequence[Mapping[str, Any]], bin_dir: str = ""
) -> dict[str, Any]:
    """Return how to run kubectl.

    Raises:
        AnsibleFilterError: a command is no list.
    """
    control_plane = (groups.get("kube_control_plane") or []) if "k8s_cluster" in groups else []
    chosen = next((choice for choice in choices if choice.get("command") or choice.get("host")), {})
    command, host = chosen.get("command") or [], chosen.get("host") or ""
    if isinstance(command, str) or not isinstance(command, Sequence):
        raise AnsibleFilterError(f"kubectl_access: command is {command!r}, expected a list of words")
    as_root = bool(control_plane) and not host
    program = f"{bin_dir}/kubectl" if bin_dir and as_root else "kubectl"
    return {
        "argv": list(command) or [program, *(["--kubeconfig", _ADMIN] if as_root else [])],
        "host": host or (control_plane[0] if as_root else "localhost"),
        "become": as_root,
        "kubespray": bool(control_plane),
    }


class FilterModule:
    """Filters of this file."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        """Return the filters by name."""
        return {"kubectl_access": kubectl_access}
