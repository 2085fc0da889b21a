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
  - Converges as M(kubenode.ipvs.kernel_modules) and then M(kubenode.ipvs.sysctls) do, in one execution on the node. On
    a converged node this takes half the time.
  - The task checks all its options before any change. It reads sysctls of a kernel module, such as
    C(net.ipv4.vs.conntrack), after it has loaded the module. In check mode, the sysctls of a module that is not loaded
    yet are shown as new, because their values are not known.
  - If the kernel refuses a value, or a file cannot be written, the task undoes all its changes. It unloads the modules
    that it loaded, with their dependencies. A module that is in use by then stays, and the error names it.
author:
  - The kubenode.ipvs maintainers (@kubenode)
requirements:
  - The command C(modprobe) on the node, if a module must be loaded.
extends_documentation_fragment:
  - kubenode.ipvs._attributes
  - kubenode.ipvs._attributes.actiongroup_converging
  - kubenode.ipvs._ownership
options:
  modules:
    description:
      - See O(kubenode.ipvs.kernel_modules#module:modules).
    type: list
    elements: str
    default: []
  optional:
    description:
      - See O(kubenode.ipvs.kernel_modules#module:optional).
    type: list
    elements: str
    default: []
  absent_modules:
    description:
      - See O(kubenode.ipvs.kernel_modules#module:absent).
    type: list
    elements: str
    default: []
  parameters:
    description:
      - See O(kubenode.ipvs.kernel_modules#module:parameters).
    type: dict
    default: {}
  sysctls:
    description:
      - See O(kubenode.ipvs.sysctls#module:sysctls).
    type: dict
    default: {}
  absent_sysctls:
    description:
      - See O(kubenode.ipvs.sysctls#module:absent).
    type: list
    elements: str
    default: []
  persist:
    description:
      - Whether modules and sysctls persist across a reboot.
    type: bool
    default: true
  purge:
    description:
      - Whether to treat modules and sysctls of the same O(owner) that this task does not name as if O(absent_modules)
        and O(absent_sysctls) named them.
      - V(none) leaves them, V(owned) removes and restores them.
    type: str
    choices: [none, owned]
    default: none
seealso:
  - module: kubenode.ipvs.kernel_modules
  - module: kubenode.ipvs.sysctls
"""

EXAMPLES = r"""
- name: Load the kernel modules of IPVS
  kubenode.ipvs.kernel_settings:
    modules: [ip_vs, ip_vs_rr, nf_conntrack|nf_conntrack_ipv4]
    optional: [br_netfilter]
    sysctls:
      net.ipv4.ip_forward: 1
      net.ipv4.vs.conntrack: 1
"""

RETURN = r"""
states:
  description: See RV(kubenode.ipvs.kernel_modules#module:states).
  returned: success
  type: dict
  sample: {ip_vs: loaded, nf_conntrack: builtin, nf_conntrack_ipv4: absent}
differing:
  description: See RV(kubenode.ipvs.kernel_modules#module:differing).
  returned: success
  type: list
  elements: dict
file:
  description: See RV(kubenode.ipvs.sysctls#module:file).
  returned: success
  type: str
  sample: /etc/sysctl.d/90-kubenode-ansible.conf
overridden:
  description: See RV(kubenode.ipvs.kernel_modules#module:overridden), and then
    RV(kubenode.ipvs.sysctls#module:overridden).
  returned: success
  type: list
  elements: dict
plan:
  description: The steps that the task took, or in check mode would take, in their order.
  returned: success
  type: list
  elements: dict
  contains:
    kind:
      description: The kind of the item, V(kernel_module), V(sysctl) or V(file).
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
  sample: ['+ kernel module ip_vs: loaded', '~ sysctl net.ipv4.ip_forward: 0 -> 1']
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
