#!/usr/bin/python
# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: kernel_modules_info
short_description: Read the state of kernel modules
version_added: 0.1.0
description:
  - Returns the state of kernel modules with their live parameters, their owner by the node's ledger, and the file that
    loads them at the next boot.
  - Tests a kernel by the presence of its modules, never by its version, and loads no module.
author:
  - The kubenode.ipvs maintainers (@kubenode)
extends_documentation_fragment:
  - kubenode.ipvs._attributes.info
  - kubenode.ipvs._attributes.actiongroup_all
options:
  names:
    description:
      - The names of modules. C(br-netfilter) and C(br_netfilter) are one module.
      - By default, the modules that are loaded and those that the ledger lists.
    type: list
    elements: str
seealso:
  - module: kubenode.ipvs.kernel_modules
"""

EXAMPLES = r"""
- name: Read the state of the modules that IPVS needs
  kubenode.ipvs.kernel_modules_info:
    names: [ip_vs, ip_vs_rr, nf_conntrack]
  register: kernel

- name: Fail if the kernel has no IPVS
  ansible.builtin.assert:
    that: kernel.modules | selectattr('state', 'equalto', 'absent') | length == 0

- name: Read all loaded modules with their owners
  kubenode.ipvs.kernel_modules_info:
  register: loaded

- name: Load the modules of the owner ansible again
  kubenode.ipvs.kernel_modules:
    modules: "{{ loaded.modules | selectattr('owner', 'equalto', 'ansible') | map(attribute='name') | list }}"
"""

RETURN = r"""
modules:
  description: The modules, by name.
  returned: success
  type: list
  elements: dict
  contains:
    name:
      description: The name in the kernel's spelling.
      type: str
    state:
      description: >-
        V(loaded), V(builtin), V(loadable) (available, not loaded), V(absent) (this kernel has no such module) or
        V(unknown) (cannot be determined, as in a container).
      type: str
    parameters:
      description: The live parameters that the kernel shows.
      type: dict
    used_by:
      description: The modules that use this module.
      type: list
      elements: str
    owner:
      description: The owner under which M(kubenode.ipvs.kernel_modules) loaded the module, empty if there is none.
      type: str
    boot:
      description: The file in C(modules-load.d) that names the module, null if there is none.
      type: str
  sample:
    - name: ip_vs
      state: loaded
      parameters: {conn_tab_bits: "12"}
      used_by: [ip_vs_rr]
      owner: ansible
      boot: /etc/modules-load.d/kubenode-ansible.conf
"""

from ansible_collections.kubenode.ipvs.plugins.module_utils._host import kernel_modules as _kernel_modules
from ansible_collections.kubenode.ipvs.plugins.module_utils._module import info as _info
from ansible_collections.kubenode.ipvs.plugins.module_utils.engine.ledger import LASTING


def main() -> None:
    spec = {"names": {"type": "list", "elements": "str"}}
    _info.run(spec, lambda params, owners: {"modules": _kernel_modules.survey(params["names"], owners)}, LASTING)


if __name__ == "__main__":
    main()
