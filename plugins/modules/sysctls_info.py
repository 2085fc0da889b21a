#!/usr/bin/python
# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: sysctls_info
short_description: Read kernel parameters
version_added: 0.1.0
description:
  - Returns live values, their owner and original value by the node's ledger, and the file that decides at the next
    boot.
  - M(kubenode.ipvs.sysctls) accepts these names and values.
author:
  - The kubenode.ipvs maintainers (@kubenode)
extends_documentation_fragment:
  - kubenode.ipvs._attributes.info
  - kubenode.ipvs._attributes.actiongroup_all
options:
  names:
    description:
      - Names in the spelling of M(kubenode.ipvs.sysctls). V(*) and V(?) match characters within one part of a name.
        Names that do not exist are ignored.
      - By default, the parameters that the ledger lists.
    type: list
    elements: str
seealso:
  - module: kubenode.ipvs.sysctls
"""

EXAMPLES = r"""
- name: Read the parameters of IPVS
  kubenode.ipvs.sysctls_info:
    names: [net.ipv4.vs.*, net/ipv4/conf/*/rp_filter]
  register: parameters

- name: Show them as kubenode.ipvs.sysctls takes them
  ansible.builtin.debug:
    msg: "{{ parameters.sysctls | items2dict(key_name='name', value_name='value') }}"

- name: Read the parameters that the ledger lists
  kubenode.ipvs.sysctls_info:
  register: ours

- name: Restore this state
  kubenode.ipvs.sysctls:
    sysctls: "{{ ours.sysctls | items2dict(key_name='name', value_name='value') }}"
"""

RETURN = r"""
sysctls:
  description: The parameters, by name.
  returned: success
  type: list
  elements: dict
  contains:
    name:
      description: The name with dots.
      type: str
    value:
      description: The live value, words separated by one blank. Null if it cannot be read.
      type: str
    owner:
      description: The owner by the ledger, empty if there is none.
      type: str
    former:
      description: The value before the owner set it, null if the ledger has none.
      type: str
    boot:
      description: The file that decides at the next boot, with its value. Null if no file names the parameter.
      type: dict
      contains:
        value:
          description: The value in the file.
          type: str
        path:
          description: The file.
          type: str
  sample:
    - name: net.ipv4.ip_forward
      value: "1"
      owner: ansible
      former: "0"
      boot: {value: "1", path: /etc/sysctl.d/90-kubenode-ansible.conf}
"""

from ansible_collections.kubenode.ipvs.plugins.module_utils._host import sysctls as _sysctls
from ansible_collections.kubenode.ipvs.plugins.module_utils._module import info as _info
from ansible_collections.kubenode.ipvs.plugins.module_utils.engine.ledger import LASTING


def main() -> None:
    spec = {"names": {"type": "list", "elements": "str"}}
    _info.run(spec, lambda params, owners: {"sysctls": _sysctls.survey(params["names"], owners)}, LASTING)


if __name__ == "__main__":
    main()
