# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Filter ``to_ipset``: sets as the input of ``ipset restore``."""

from __future__ import annotations

from typing import Any, Callable

from ansible.errors import AnsibleFilterError

DOCUMENTATION = r"""
name: to_ipset
short_description: Render IP sets as the input of ipset restore
version_added: 0.1.0
description:
  - Returns sets and members in the text that C(ipset restore) reads, in their order. The text has no omitted options,
    so the tool applies its defaults.
  - The filter refuses members in a file (C(src)).

author:
  - The kubenode.ipvs maintainers (@kubenode)
options:
  _input:
    description:
      - The sets, as the option of M(kubenode.ipvs.ipsets). Sets with C(state=absent) are left out.
    type: list
    elements: dict
    required: true
seealso:
  - module: kubenode.ipvs.ipsets
"""

EXAMPLES = r"""
- name: Show a set as ipset would read it
  ansible.builtin.debug:
    msg: "{{ [{'name': 'trusted', 'type': 'hash:net', 'members': ['192.0.2.0/24']}] | kubenode.ipvs.to_ipset }}"
"""

RETURN = r"""
_value:
  description: The text, empty if no item is present.
  type: str
"""


def to_ipset(sets: Any) -> str:
    """Return the input of ``ipset restore``.

    Raises:
        AnsibleFilterError: an option is invalid.
    """
    # Imported here: for any filter, Ansible loads all filters of a collection, in the process of each task.
    from ansible_collections.kubenode.ipvs.plugins.module_utils.engine.errors import EngineError
    from ansible_collections.kubenode.ipvs.plugins.plugin_utils.native_text import ipset

    try:
        return ipset(sets)
    except EngineError as error:
        raise AnsibleFilterError(f"to_ipset: {error}") from error


class FilterModule:
    """Filters of this file."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        """Return the filters by name."""
        return {"to_ipset": to_ipset}
