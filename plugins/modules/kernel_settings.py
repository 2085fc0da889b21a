#!/usr/bin/python
# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: kernel_settings
short_description: Converge kernel modules and kernel parameters in one task
version_added: 0.1.0
description:
  - Does what M(kubenode.ipvs.kernel_modules) and then M(kubenode.ipvs.sysctls) do, in one execution on the node. On a
    node that has converged already, that is half the time.
  - What both are asked for is checked before either changes anything. Parameters that a kernel module brings, such as
    C(net.ipv4.vs.conntrack), are read after it is loaded. In check mode, those of modules that can be loaded are shown
    as new, as their values are not known yet.
  - If the kernel refuses a parameter, or a file cannot be written, all is as before. Modules that this task has loaded
    are unloaded again, with those that came along. One that something has begun to use stays, and the error says so.
author:
  - The kubenode.ipvs maintainers (@kubenode)
requirements:
  - The command C(modprobe) on the node, where something must be loaded.
extends_documentation_fragment:
  - kubenode.ipvs._attributes
  - kubenode.ipvs._attributes.actiongroup_converging
  - kubenode.ipvs._ownership
options:
  modules:
    description:
      - As O(kubenode.ipvs.kernel_modules#module:modules).
    type: list
    elements: str
    default: []
  optional:
    description:
      - As O(kubenode.ipvs.kernel_modules#module:optional).
    type: list
    elements: str
    default: []
  absent_modules:
    description:
      - As O(kubenode.ipvs.kernel_modules#module:absent).
    type: list
    elements: str
    default: []
  parameters:
    description:
      - As O(kubenode.ipvs.kernel_modules#module:parameters).
    type: dict
    default: {}
  sysctls:
    description:
      - As O(kubenode.ipvs.sysctls#module:sysctls).
    type: dict
    default: {}
  absent_sysctls:
    description:
      - As O(kubenode.ipvs.sysctls#module:absent).
    type: list
    elements: str
    default: []
  persist:
    description:
      - Whether modules and parameters shall be there after a reboot.
    type: bool
    default: true
  purge:
    description:
      - Whether modules and parameters that the same O(owner) wanted earlier and that this task does not name are as if
        named in O(absent_modules) and O(absent_sysctls).
      - V(none) leaves them, V(owned) removes and restores them.
    type: str
    choices: [none, owned]
    default: none
seealso:
  - module: kubenode.ipvs.kernel_modules
  - module: kubenode.ipvs.sysctls
"""

EXAMPLES = r"""
- name: What IPVS needs
  kubenode.ipvs.kernel_settings:
    modules: [ip_vs, ip_vs_rr, nf_conntrack|nf_conntrack_ipv4]
    optional: [br_netfilter]
    sysctls:
      net.ipv4.ip_forward: 1
      net.ipv4.vs.conntrack: 1
"""

RETURN = r"""
states:
  description: As RV(kubenode.ipvs.kernel_modules#module:states).
  returned: success
  type: dict
  sample: {ip_vs: loaded, nf_conntrack: builtin, nf_conntrack_ipv4: absent}
differing:
  description: As RV(kubenode.ipvs.kernel_modules#module:differing).
  returned: success
  type: list
  elements: dict
file:
  description: As RV(kubenode.ipvs.sysctls#module:file).
  returned: success
  type: str
  sample: /etc/sysctl.d/90-kubenode-ansible.conf
overridden:
  description: As RV(kubenode.ipvs.kernel_modules#module:overridden), and then
    RV(kubenode.ipvs.sysctls#module:overridden).
  returned: success
  type: list
  elements: dict
plan:
  description: What was done, or in check mode would be done, in this order.
  returned: success
  type: list
  elements: dict
  contains:
    kind:
      description: What kind of thing changes, V(kernel_module), V(sysctl) or V(file).
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
  sample: ['+ kernel module ip_vs: loaded', '~ sysctl net.ipv4.ip_forward: 0 -> 1']
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
  returned: if the task failed on its way
  type: list
  elements: str
"""

from ansible_collections.kubenode.ipvs.plugins.module_utils._module.task import run
from ansible_collections.kubenode.ipvs.plugins.module_utils._tasks.kernel_settings import Task


def main() -> None:
    run(Task)


if __name__ == "__main__":
    main()
