#!/usr/bin/python
# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: sysctls
short_description: Converge kernel parameters, now and at every boot
version_added: 0.1.0
description:
  - Makes sure that kernel parameters have the given values. One task converges many parameters. The module reads and
    writes live values in C(/proc/sys), and keeps them for the next boot in its file
    C(/etc/sysctl.d/90-kubenode-OWNER.conf).
  - The module never changes files that it did not make. If a later file sets another value, the task warns and names
    the file. Files of C(/etc/sysctl.d), C(/run/sysctl.d), C(/usr/local/lib/sysctl.d) and C(/usr/lib/sysctl.d) take
    effect in the order of their names, and C(/etc/sysctl.conf) after all of them.
  - The module records original values below C(/var/lib/kubenode), and restores them when O(absent) names a parameter.
  - The task fails if a parameter does not exist, and the message names the kernel module that it needs. If the kernel
    refuses a value, the task undoes all its changes.
author:
  - The kubenode.ipvs maintainers (@kubenode)
extends_documentation_fragment:
  - kubenode.ipvs._attributes
  - kubenode.ipvs._attributes.actiongroup_converging
  - kubenode.ipvs._ownership
  - kubenode.ipvs._confirmation
  - kubenode.ipvs._attributes.action
options:
  sysctls:
    description:
      - Names and values, for example V(net.ipv4.vs.conntrack) and V(1).
      - Dots separate the parts of a name. If a part has dots itself, use slashes, as for C(sysctl).
      - >-
        Instead of a value, a dictionary of C(min), C(max) or both, for example V({min: 262144}). A value within the
        bounds stays as it is. A value outside is raised or lowered to the bound. For the next boot, an earlier file
        whose value is within the bounds decides.
      - For a parameter of several numbers, each bound has as many numbers, which are compared one by one.
      - Values are compared word by word. YAML's booleans are refused, because V(on) means something else to the kernel
        than V(1).
    type: dict
    default: {}
  absent:
    description:
      - Names of parameters of the O(owner) to restore to their original values.
    type: list
    elements: str
    default: []
  persist:
    description:
      - Whether the values persist across a reboot.
    type: bool
    default: true
  purge:
    description:
      - Whether to treat parameters of the same O(owner) that this task does not name as if O(absent) named them.
      - V(none) leaves them, V(owned) restores them.
    type: str
    choices: [none, owned]
    default: none
seealso:
  - module: kubenode.ipvs.sysctls_info
  - module: kubenode.ipvs.kernel_settings
  - module: kubenode.ipvs.kernel_modules
"""

EXAMPLES = r"""
- name: Set the kernel parameters of IPVS
  kubenode.ipvs.sysctls:
    sysctls:
      net.ipv4.ip_forward: 1
      net.ipv4.vs.conntrack: 1
      net.ipv4.vs.expire_nodest_conn: 1
      net/ipv4/conf/eth0.100/rp_filter: 2

- name: Set bounds instead of values
  kubenode.ipvs.sysctls:
    sysctls:
      net.netfilter.nf_conntrack_max: {min: 131072}
      net.ipv4.tcp_rmem: {min: "4096 131072 6291456"}
      vm.swappiness: {max: 10}

- name: Filter by reverse path, and undo the change if it cuts off the controller
  kubenode.ipvs.sysctls:
    sysctls: {net.ipv4.conf.all.rp_filter: 1}
    confirm_timeout: 60

- name: Restore the original value
  kubenode.ipvs.sysctls:
    absent: [net.ipv4.ip_forward]

- name: Restore all parameters of this owner
  kubenode.ipvs.sysctls:
    purge: owned
"""

RETURN = r"""
confirmed:
  description: Whether the controller confirmed the change in time.
  returned: if O(confirm_timeout) is given and something changed
  type: bool
file:
  description: The file that keeps the values for the next boot.
  returned: success
  type: str
  sample: /etc/sysctl.d/90-kubenode-ansible.conf
overridden:
  description: Settings of other files that override a value of this task at the next boot.
  returned: success
  type: list
  elements: dict
  contains:
    name:
      description: The parameter.
      type: str
    value:
      description: The value in the other file.
      type: str
    path:
      description: The other file.
      type: str
plan:
  description: The steps that the task took, or in check mode would take, in their order.
  returned: success
  type: list
  elements: dict
  contains:
    kind:
      description: The kind of the item, V(sysctl) or V(file).
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
    - {kind: sysctl, verb: change, key: net.ipv4.ip_forward, before: "0", after: "1"}
lines:
  description: The same plan, one line for each step.
  returned: success
  type: list
  elements: str
  sample: ['~ sysctl net.ipv4.ip_forward: 0 -> 1']
adopted:
  description: Unowned items that were in the desired state, and belong to the owner now.
  returned: success
  type: list
  elements: str
  sample: ['sysctl net.ipv4.ip_forward']
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
from ansible_collections.kubenode.ipvs.plugins.module_utils._tasks.sysctls import Task


def main() -> None:
    run(Task)


if __name__ == "__main__":
    main()
