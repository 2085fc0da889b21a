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
  - Makes sure that kernel modules are loaded, in one task for many of them, and that they are loaded at the next boot
    through one file of their own, C(/etc/modules-load.d/kubenode-OWNER.conf). Their parameters are kept in
    C(/etc/modprobe.d/kubenode-OWNER.conf).
  - What a kernel has is found out by presence, never by its version. What is built in is as good as loaded.
  - Files of others are never changed.
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
      - The names of the modules that shall be loaded. C(br-netfilter) and C(br_netfilter) are one module.
      - Names joined by C(|) are alternatives. The first that is there already or else can be loaded is taken.
      - A module that this kernel does not have makes the task fail.
    type: list
    elements: str
    default: []
  optional:
    description:
      - As O(modules), but what this kernel does not have is only a warning.
    type: list
    elements: str
    default: []
  absent:
    description:
      - The names of modules that the O(owner) wanted earlier and that shall not be loaded at boot any more.
      - Those that this module loaded, and that nothing uses, are unloaded.
    type: list
    elements: str
    default: []
  parameters:
    description:
      - "Parameters by the module's name, for example V({ip_vs: {conn_tab_bits: 18}})."
      - They take effect when the module is loaded. They are compared with the live ones under C(/sys/module); if the
        module is loaded already with other ones, or built in, the task warns and returns them in RV(differing).
    type: dict
    default: {}
  persist:
    description:
      - Whether the modules shall be loaded at the next boot.
    type: bool
    default: true
  purge:
    description:
      - Whether modules that the same O(owner) wanted earlier and that this task does not name are as if named in
        O(absent).
      - V(none) leaves them, V(owned) removes them.
    type: str
    choices: [none, owned]
    default: none
notes:
  - Where the kernel does not tell what it has (containers, kernels without modules), the task warns and goes on.
seealso:
  - module: kubenode.ipvs.kernel_modules_info
  - module: kubenode.ipvs.kernel_settings
  - module: kubenode.ipvs.sysctls
  - module: kubenode.ipvs.node_check
"""

EXAMPLES = r"""
- name: What IPVS needs
  kubenode.ipvs.kernel_modules:
    modules:
      - ip_vs
      - ip_vs_rr
      - nf_conntrack|nf_conntrack_ipv4
    optional: [br_netfilter]
    parameters:
      ip_vs: {conn_tab_bits: 15}

- name: Take all back that this owner ever wanted
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
  description: The parameters with which a module is there already and which are not the wanted ones.
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
      description: What the module runs with.
      type: str
    wanted:
      description: What it is to be loaded with.
      type: str
  sample:
    - {module: ip_vs, parameter: conn_tab_bits, live: "12", wanted: "15"}
overridden:
  description: What files of others make of the next boot, and is not what is wanted (only with O(persist)). Each is a
    warning, too.
  returned: success
  type: list
  elements: dict
  contains:
    name:
      description: The parameter behind its module and a dot, or a module.
      type: str
    value:
      description: What the parameter will be, V(blacklist) for a module that will not be loaded.
      type: str
    path:
      description: The file in C(modprobe.d) that says so.
      type: str
  sample:
    - {name: ip_vs.conn_tab_bits, value: "12", path: /etc/modprobe.d/zz-local.conf}
plan:
  description: What was done, or in check mode would be done, in this order.
  returned: success
  type: list
  elements: dict
  contains:
    kind:
      description: What kind of thing changes, V(kernel_module) or V(file).
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
from ansible_collections.kubenode.ipvs.plugins.module_utils._tasks.kernel_modules import Task


def main() -> None:
    run(Task)


if __name__ == "__main__":
    main()
