#!/usr/bin/python
# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: ipsets_info
short_description: Read IP sets and their members
version_added: 0.1.0
description:
  - Returns sets with their options and members, and the owner of each by the node's ledger.
author:
  - The kubenode.ipvs maintainers (@kubenode)
requirements:
  - The command C(ipset) on the node.
extends_documentation_fragment:
  - kubenode.ipvs._attributes.info
  - kubenode.ipvs._attributes.actiongroup_all
  - kubenode.ipvs._ownership.as_options
options:
  names:
    description:
      - The names of the sets. By default all sets. Names that do not exist are ignored.
    type: list
    elements: str
  members:
    description:
      - Whether to return the members.
    type: bool
    default: true
seealso:
  - module: kubenode.ipvs.ipsets
"""

EXAMPLES = r"""
- name: Read two sets
  kubenode.ipvs.ipsets_info:
    names: [trusted, blocked]
  register: sets

- name: Read all sets as kubenode.ipvs.ipsets takes them
  kubenode.ipvs.ipsets_info:
    as_options: true
  register: wanted

- name: Restore this state
  kubenode.ipvs.ipsets:
    sets: "{{ wanted.sets }}"
"""

RETURN = r"""
sets:
  description: The sets with the options that M(kubenode.ipvs.ipsets) takes, and those that the kernel chose.
  returned: success
  type: list
  elements: dict
  contains:
    name:
      description: The name.
      type: str
    type:
      description: See O(kubenode.ipvs.ipsets#module:sets[].type).
      type: str
    family:
      description: See O(kubenode.ipvs.ipsets#module:sets[].family).
      returned: if the set has it
      type: str
    timeout:
      description: See O(kubenode.ipvs.ipsets#module:sets[].timeout).
      returned: if the set has it
      type: int
    counters:
      description: See O(kubenode.ipvs.ipsets#module:sets[].counters).
      returned: if the set has it
      type: bool
    comment:
      description: See O(kubenode.ipvs.ipsets#module:sets[].comment).
      returned: if the set has it
      type: bool
    skbinfo:
      description: See O(kubenode.ipvs.ipsets#module:sets[].skbinfo).
      returned: if the set has it
      type: bool
    forceadd:
      description: See O(kubenode.ipvs.ipsets#module:sets[].forceadd).
      returned: if the set has it
      type: bool
    maxelem:
      description: See O(kubenode.ipvs.ipsets#module:sets[].maxelem).
      returned: if the set has it
      type: int
    hashsize:
      description: See O(kubenode.ipvs.ipsets#module:sets[].hashsize).
      returned: if the set has it
      type: int
    bucketsize:
      description: See O(kubenode.ipvs.ipsets#module:sets[].bucketsize).
      returned: if the set has it
      type: int
    initval:
      description: See O(kubenode.ipvs.ipsets#module:sets[].initval).
      returned: if the set has it
      type: str
    netmask:
      description: See O(kubenode.ipvs.ipsets#module:sets[].netmask).
      returned: if the set has it
      type: int
    bitmask:
      description: See O(kubenode.ipvs.ipsets#module:sets[].bitmask).
      returned: if the set has it
      type: str
    markmask:
      description: See O(kubenode.ipvs.ipsets#module:sets[].markmask).
      returned: if the set has it
      type: str
    range:
      description: See O(kubenode.ipvs.ipsets#module:sets[].range).
      returned: if the set has it
      type: str
    size:
      description: See O(kubenode.ipvs.ipsets#module:sets[].size).
      returned: if the set has it
      type: int
    members:
      description: See O(kubenode.ipvs.ipsets#module:sets[].members).
      returned: with O(members)
      type: list
      elements: str
    owner:
      description: The owner by the ledger, empty if there is none.
      returned: unless O(as_options)
      type: str
  sample:
    - {name: trusted, type: "hash:net", family: inet, hashsize: 1024, maxelem: 65536, members: [192.0.2.0/24], owner:
      ansible}
"""

from ansible_collections.kubenode.ipvs.plugins.module_utils._module import info as _info


def main() -> None:
    spec = {
        "names": {"type": "list", "elements": "str"},
        "members": {"type": "bool", "default": True},
        **_info.AS_OPTIONS,
    }
    _info.run(
        spec,
        lambda params, owners: {"sets": _info.sets(owners, params["names"], params["members"], params["as_options"])},
    )


if __name__ == "__main__":
    main()
