#!/usr/bin/python
# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: kernel_modules
short_description: Converge loaded kernel modules, now and at every boot
version_added: 0.1.0
description:
  - Makes sure that kernel modules are loaded, now and at the next boot. One task converges many modules. The file
    C(/etc/modules-load.d/kubenode-OWNER.conf) loads them at boot, and C(/etc/modprobe.d/kubenode-OWNER.conf) has their
    parameters.
  - The module tests a kernel by the presence of its modules, never by its version. A built-in module counts as loaded.
  - The module never changes files that it did not make.
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
      - The names of the modules to load. C(br-netfilter) and C(br_netfilter) are one module.
      - Names joined by C(|) are alternatives. The task takes the first that is loaded already, or else the first that
        can be loaded.
      - The task fails if this kernel does not have a module.
    type: list
    elements: str
    default: []
  optional:
    description:
      - Further names as in O(modules). For a module that this kernel does not have, the task only warns.
    type: list
    elements: str
    default: []
  absent:
    description:
      - The names of modules of the O(owner) that must not be loaded at boot any more.
      - The task unloads those that an earlier task loaded, unless they are in use.
    type: list
    elements: str
    default: []
  parameters:
    description:
      - "Parameters by module name, for example V({ip_vs: {conn_tab_bits: 18}})."
      - They take effect when the module is loaded. The task compares them with the live values under C(/sys/module). If
        a module is built in or loaded already with other values, the task warns and returns them in RV(differing).
    type: dict
    default: {}
  persist:
    description:
      - Whether to load the modules at the next boot.
    type: bool
    default: true
  purge:
    description:
      - Whether to treat modules of the same O(owner) that this task does not name as if O(absent) named them.
      - V(none) leaves them, V(owned) removes them.
    type: str
    choices: [none, owned]
    default: none
notes:
  - If the state of modules is unknown (containers, kernels without modules), the task warns and goes on.
seealso:
  - module: kubenode.ipvs.kernel_modules_info
  - module: kubenode.ipvs.kernel_settings
  - module: kubenode.ipvs.sysctls
  - module: kubenode.ipvs.node_check
"""

EXAMPLES = r"""
- name: Load the kernel modules of IPVS
  kubenode.ipvs.kernel_modules:
    modules:
      - ip_vs
      - ip_vs_rr
      - nf_conntrack|nf_conntrack_ipv4
    optional: [br_netfilter]
    parameters:
      ip_vs: {conn_tab_bits: 15}

- name: Remove all modules of this owner
  kubenode.ipvs.kernel_modules:
    purge: owned
"""

RETURN = r"""
states:
  description: >-
    The state of each named module after the task, V(loaded), V(builtin), V(loadable), V(absent) or V(unknown).
    In check mode, the state before it.
  returned: success
  type: dict
  sample: {ip_vs: loaded, nf_conntrack: builtin, nf_conntrack_ipv4: absent}
differing:
  description: The parameters of loaded or built-in modules whose live value is not the wanted one.
  returned: success
  type: list
  elements: dict
  contains:
    module:
      description: The module.
      type: str
    parameter:
      description: The parameter.
      type: str
    live:
      description: The live value.
      type: str
    wanted:
      description: The wanted value.
      type: str
  sample:
    - {module: ip_vs, parameter: conn_tab_bits, live: "12", wanted: "15"}
overridden:
  description: Settings of other files for the next boot that contradict the task (only with O(persist)). The task also
    warns of each.
  returned: success
  type: list
  elements: dict
  contains:
    name:
      description: The parameter with its module (C(MODULE.PARAMETER)), or the module.
      type: str
    value:
      description: The parameter's value at the next boot. V(blacklist) means that the module will not be loaded.
      type: str
    path:
      description: The file in C(modprobe.d) with this setting.
      type: str
  sample:
    - {name: ip_vs.conn_tab_bits, value: "12", path: /etc/modprobe.d/zz-local.conf}
plan:
  description: The steps that the task took, or in check mode would take, in their order.
  returned: success
  type: list
  elements: dict
  contains:
    kind:
      description: The kind of the item, V(kernel_module) or V(file).
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
    - {kind: kernel_module, verb: create, key: ip_vs, before: null, after: loaded conn_tab_bits=15}
lines:
  description: The same plan, one line for each step.
  returned: success
  type: list
  elements: str
  sample: ['+ kernel module ip_vs: loaded conn_tab_bits=15']
adopted:
  description: Unowned items that were in the desired state, and belong to the owner now.
  returned: success
  type: list
  elements: str
  sample: ['kernel module ip_vs']
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
from ansible_collections.kubenode.ipvs.plugins.module_utils._tasks.kernel_modules import Task


def main() -> None:
    run(Task)


if __name__ == "__main__":
    main()
