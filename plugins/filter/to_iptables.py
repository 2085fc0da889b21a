# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Filter ``to_iptables``: chains as the input of ``iptables-restore --noflush``."""

from __future__ import annotations

from typing import Any, Callable

from ansible.errors import AnsibleFilterError

DOCUMENTATION = r"""
name: to_iptables
short_description: Render chains as the input of iptables-restore
version_added: 0.1.0
description:
  - Returns chains, rules and jumps in the text that C(iptables-restore --noflush) reads, in their order. Rules keep
    their spelling.
  - Each C(iptables-restore) of the text inserts the jumps again, because it cannot test for existing rules.

author:
  - The kubenode.ipvs maintainers (@kubenode)
positional: _input, family
options:
  _input:
    description:
      - The chains, as the option of M(kubenode.ipvs.iptables_chains). Chains with C(state=absent) are left out.
    type: list
    elements: dict
    required: true
  family:
    description:
      - The address family of the chains, V(ipv4) or V(ipv6).
    type: str
    choices: [ipv4, ipv6]
    default: ipv4
seealso:
  - module: kubenode.ipvs.iptables_chains
"""

EXAMPLES = r"""
- name: Show a chain as iptables-restore would read it
  ansible.builtin.debug:
    msg: >-
      {{ [{'name': 'EDGE', 'rules': ['-p tcp -j DROP'], 'jumps': [{'chain': 'INPUT'}]}] |
      kubenode.ipvs.to_iptables }}
"""

RETURN = r"""
_value:
  description: The text, empty if no item is present.
  type: str
"""


def to_iptables(chains: Any, family: str = "ipv4") -> str:
    """Return the input of ``iptables-restore --noflush``.

    Raises:
        AnsibleFilterError: an option is invalid.
    """
    # Imported here: for any filter, Ansible loads all filters of a collection, in the process of each task.
    from ansible_collections.kubenode.ipvs.plugins.module_utils.engine.errors import EngineError
    from ansible_collections.kubenode.ipvs.plugins.plugin_utils.native_text import iptables

    try:
        return iptables(chains, family)
    except EngineError as error:
        raise AnsibleFilterError(f"to_iptables: {error}") from error


class FilterModule:
    """Filters of this file."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        """Return the filters by name."""
        return {"to_iptables": to_iptables}
