# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Filter ``to_ipvsadm``: virtual servers as the input of ``ipvsadm --restore``."""

from __future__ import annotations

from typing import Any, Callable

from ansible.errors import AnsibleFilterError

DOCUMENTATION = r"""
name: to_ipvsadm
short_description: Render virtual servers as the input of ipvsadm --restore
version_added: 0.1.0
description:
  - Returns virtual servers in the text that C(ipvsadm --restore) reads and C(ipvsadm -Sn) prints, sorted.
  - The text has only what C(ipvsadm -Sn) prints, for example no thresholds.

author:
  - The kubenode.ipvs maintainers (@kubenode)
options:
  _input:
    description:
      - The virtual servers, as the option of M(kubenode.ipvs.ipvs_services). Virtual servers with C(state=absent) are
        left out.
    type: list
    elements: dict
    required: true
seealso:
  - module: kubenode.ipvs.ipvs_services
"""

EXAMPLES = r"""
- name: Show virtual servers as ipvsadm would
  ansible.builtin.debug:
    # Shows -A -t 192.0.2.10:80 -s rr
    msg: "{{ [{'protocol': 'tcp', 'address': '192.0.2.10', 'port': 80}] | kubenode.ipvs.to_ipvsadm }}"
"""

RETURN = r"""
_value:
  description: The text, empty if no item is present.
  type: str
"""


def to_ipvsadm(services: Any) -> str:
    """Return the input of ``ipvsadm --restore``.

    Raises:
        AnsibleFilterError: an option is invalid.
    """
    # Imported here: for any filter, Ansible loads all filters of a collection, in the process of each task.
    from ansible_collections.kubenode.ipvs.plugins.module_utils.engine.errors import EngineError
    from ansible_collections.kubenode.ipvs.plugins.plugin_utils.native_text import ipvsadm

    try:
        return ipvsadm(services)
    except EngineError as error:
        raise AnsibleFilterError(f"to_ipvsadm: {error}") from error


class FilterModule:
    """Filters of this file."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        """Return the filters by name."""
        return {"to_ipvsadm": to_ipvsadm}
