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
  - Makes sure that kernel parameters have the given values, in one task for many of them. The live values are read from
    and written to C(/proc/sys), and kept for the next boot in one file of their own,
    C(/etc/sysctl.d/90-kubenode-OWNER.conf).
  - Files of others are never changed. If one of them has the last word and says something else, the task warns and
    names it. Files take effect in the order of their names, whichever of C(/etc/sysctl.d), C(/run/sysctl.d),
    C(/usr/local/lib/sysctl.d) and C(/usr/lib/sysctl.d) they are in, and C(/etc/sysctl.conf) after all of them.
  - The values that were there before are remembered under C(/var/lib/kubenode) and come back when a parameter is named
    in O(absent).
  - A parameter that does not exist makes the task fail, and the message names the kernel module that it needs. If the
    kernel refuses a value, everything that this task did before is undone.
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
      - The parts of a name are separated by dots or, if one of them has dots itself, by slashes, as for C(sysctl).
      - >-
        Instead of a value, a dictionary of C(min), C(max) or both, for example V({min: 262144}). The value is then only
        raised, or only lowered, and stays as it is where it is within its bounds. For the next boot, an earlier file of
        others whose value is within the bounds is left to decide.
      - A parameter of several numbers has as many in its bounds, and they are compared one by one.
      - Values are compared word by word. YAML's booleans are refused, because V(on) means something else to the kernel
        than V(1).
    type: dict
    default: {}
  absent:
    description:
      - Names of parameters that the O(owner) set earlier and that shall be as they were before.
    type: list
    elements: str
    default: []
  persist:
    description:
      - Whether the values shall be there after a reboot.
    type: bool
    default: true
  purge:
    description:
      - Whether parameters that the same O(owner) set earlier and that this task does not name are as if named in
        O(absent).
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
- name: What IPVS wants
  kubenode.ipvs.sysctls:
    sysctls:
      net.ipv4.ip_forward: 1
      net.ipv4.vs.conntrack: 1
      net.ipv4.vs.expire_nodest_conn: 1
      net/ipv4/conf/eth0.100/rp_filter: 2

- name: At least this much, and not more than that
  kubenode.ipvs.sysctls:
    sysctls:
      net.netfilter.nf_conntrack_max: {min: 131072}
      net.ipv4.tcp_rmem: {min: "4096 131072 6291456"}
      vm.swappiness: {max: 10}

- name: Route replies another way, and have it as before if the controller is cut off by it
  kubenode.ipvs.sysctls:
    sysctls: {net.ipv4.conf.all.rp_filter: 1}
    confirm_timeout: 60

- name: Have the former value again
  kubenode.ipvs.sysctls:
    absent: [net.ipv4.ip_forward]

- name: Take all back that this owner ever set
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
  description: Settings of other files that have the last word and say something else.
  returned: success
  type: list
  elements: dict
  contains:
    name:
      description: The parameter.
      type: str
    value:
      description: What the other file says.
      type: str
    path:
      description: The other file.
      type: str
plan:
  description: What was done, or in check mode would be done, in this order.
  returned: success
  type: list
  elements: dict
  contains:
    kind:
      description: What kind of thing changes, V(sysctl) or V(file).
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
from ansible_collections.kubenode.ipvs.plugins.module_utils._tasks.sysctls import Task


def main() -> None:
    run(Task)


if __name__ == "__main__":
    main()
