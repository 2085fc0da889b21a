#!/usr/bin/python
# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: virtual_addresses
short_description: Converge addresses on dummy links
version_added: 0.1.0
description:
  - Makes sure that the given links have the given addresses. One task converges many of them. Missing links are created
    as dummy links.
  - A node accepts packets for a virtual server only if it has the address. On a dummy link, the node has the address
    and announces it on no network.
  - Talks to the kernel over netlink. Needs only Python on the node.
  - If the kernel refuses an item, the task undoes all its changes, and the message names the item.
author:
  - The kubenode.ipvs maintainers (@kubenode)
requirements:
  - The kernel module C(dummy) if a link must be created (see M(kubenode.ipvs.kernel_modules)).
extends_documentation_fragment:
  - kubenode.ipvs._attributes
  - kubenode.ipvs._attributes.actiongroup_converging
  - kubenode.ipvs._ownership
  - kubenode.ipvs._confirmation
  - kubenode.ipvs._attributes.action
  - kubenode.ipvs._ownership.purge
options:
  links:
    description:
      - The links. Naming one twice is an error.
    type: list
    elements: dict
    default: []
    suboptions:
      name:
        description:
          - The name, of at most 15 characters.
          - A link that exists may be of any type. Addresses that this O(owner) did not add stay.
        type: str
        required: true
      up:
        description:
          - Whether the link must be up.
          - If omitted, an existing link stays as it is, and a new link stays down. The node has the addresses of a link
            that is down, too, and the kernel answers no IPv6 neighbour discovery for them.
        type: bool
      addresses:
        description:
          - The addresses, with or without a prefix length. The default prefix length is 32 for IPv4 and 128 for IPv6.
          - If omitted, the addresses are left as they are.
        type: list
        elements: str
      purge_addresses:
        description:
          - Whether to remove addresses from the link that the same O(owner) added and O(links[].addresses) does not
            name.
        type: bool
        default: true
      absent_addresses:
        description:
          - Addresses to remove. Has an effect only with O(links[].purge_addresses=false).
        type: list
        elements: str
        default: []
      state:
        description:
          - Whether the link must exist. With V(absent) its addresses are removed with it.
        type: str
        choices: [present, absent]
        default: present
notes:
  - O(purge=all) removes from the named links all addresses that the task does not name and no other owner claims. It
    never removes links of other owners.
  - A link of this O(owner) that carries addresses of another owner is not purged.
seealso:
  - module: kubenode.ipvs.virtual_addresses_info
  - module: kubenode.ipvs.ipvs_services
"""

EXAMPLES = r"""
- name: Add the addresses of two virtual servers
  kubenode.ipvs.virtual_addresses:
    links:
      - name: vips
        addresses:
          - 192.0.2.80
          - 2001:db8::80

- name: Add one more address, leave the others as they are
  kubenode.ipvs.virtual_addresses:
    links:
      - name: vips
        purge_addresses: false
        addresses: [192.0.2.81]

- name: Remove the link with its addresses
  kubenode.ipvs.virtual_addresses:
    links:
      - {name: vips, state: absent}
"""

RETURN = r"""
confirmed:
  description: Whether the controller confirmed the change in time.
  returned: if O(confirm_timeout) is given and something changed
  type: bool
plan:
  description: The steps that the task took, or in check mode would take, in their order.
  returned: success
  type: list
  elements: dict
  contains:
    kind:
      description: The kind of the item, V(link) or V(address).
      type: str
    verb:
      description: The change of the item, V(create), V(change) or V(delete).
      type: str
    key:
      description: The key of the item, which identifies it within its kind.
      type: raw
    before:
      description: The value before, null for a creation.
      type: raw
    after:
      description: The value after, null for a deletion.
      type: raw
  sample:
    - {kind: address, verb: create, key: {link: vips, address: 192.0.2.80, prefix: 32}, before: null, after: true}
lines:
  description: The same plan, one line for each step.
  returned: success
  type: list
  elements: str
  sample: ['+ address 192.0.2.80/32 on vips']
adopted:
  description: Unowned items that were in the desired state, and belong to the owner now (only with O(adopt) or
    O(purge=all)).
  returned: success
  type: list
  elements: str
  sample: ['address 192.0.2.80/32 on vips']
failed_steps:
  description: The steps that failed, as in RV(plan), each with a C(message). Empty if all steps succeeded and the
    ledger could not be written.
  returned: if the task failed on its way
  type: list
  elements: dict
undone:
  description: The lines of the steps that were undone.
  returned: if the task failed on its way, or the change was not confirmed in time
  type: list
  elements: str
"""

from ansible_collections.kubenode.ipvs.plugins.module_utils._module.task import run
from ansible_collections.kubenode.ipvs.plugins.module_utils._tasks.virtual_addresses import Task


def main() -> None:
    run(Task)


if __name__ == "__main__":
    main()
