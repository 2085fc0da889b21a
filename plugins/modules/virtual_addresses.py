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
  - Makes sure that the given links have the given addresses, in one task for many of them. Links that do not exist are
    created as dummy links.
  - A node accepts packets for a virtual server only if it has the address. On a dummy link the address belongs to the
    node without being announced on a network.
  - Speaks to the kernel over netlink, needs nothing but Python on the node.
  - If the kernel refuses something, everything that this task did before is undone and the message names the object.
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
          - A link that exists may be of any type. Its addresses that this O(owner) did not add stay.
        type: str
        required: true
      up:
        description:
          - Whether the link shall be up.
          - If omitted, a link that exists is left as it is, and a new one stays down. Addresses of a link that is down
            belong to the node all the same, and the kernel answers no IPv6 neighbour discovery for them.
        type: bool
      addresses:
        description:
          - The addresses, each with a prefix length or not. Without it the prefix length is 32 for IPv4 and 128 for
            IPv6.
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
          - Addresses that shall not be there. Needs O(links[].purge_addresses=false) to be of any use.
        type: list
        elements: str
        default: []
      state:
        description:
          - Whether the link shall be there. With V(absent) its addresses go with it.
        type: str
        choices: [present, absent]
        default: present
notes:
  - With O(purge=all), all addresses of the named links that no other owner claims are removed unless they are named.
    Links of others are never removed by it.
  - A link of this O(owner) that carries addresses of another owner is not purged.
seealso:
  - module: kubenode.ipvs.virtual_addresses_info
  - module: kubenode.ipvs.ipvs_services
"""

EXAMPLES = r"""
- name: Take the addresses of two virtual servers
  kubenode.ipvs.virtual_addresses:
    links:
      - name: vips
        addresses:
          - 192.0.2.80
          - 2001:db8::80

- name: Take one more address, leave the others alone
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
  description: What was done, or in check mode would be done, in this order.
  returned: success
  type: list
  elements: dict
  contains:
    kind:
      description: What kind of thing changes, V(link) or V(address).
      type: str
    verb:
      description: One of V(create), V(change), V(delete).
      type: str
    key:
      description: What identifies the thing.
      type: raw
    before:
      description: What it was, null for a creation.
      type: raw
    after:
      description: What it becomes, null for a deletion.
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
  description: The steps that failed, as in RV(plan), each with a C(message). None if it was the ledger, after all of
    them.
  returned: if the task failed on its way
  type: list
  elements: dict
undone:
  description: The lines of the steps that were taken back.
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
