#!/usr/bin/python
# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: virtual_addresses_info
short_description: Read the addresses of links
version_added: 0.1.0
description:
  - Returns links with their addresses, and the owner of each by the node's ledger.
author:
  - The kubenode.ipvs maintainers (@kubenode)
extends_documentation_fragment:
  - kubenode.ipvs._attributes.info
  - kubenode.ipvs._attributes.actiongroup_all
  - kubenode.ipvs._ownership.as_options
options:
  links:
    description:
      - The names of the links. By default all links with an address. Names that do not exist are ignored.
    type: list
    elements: str
seealso:
  - module: kubenode.ipvs.virtual_addresses
"""

EXAMPLES = r"""
- name: Read the proxy's addresses
  kubenode.ipvs.virtual_addresses_info:
    links: [kube-ipvs0]
  register: proxy

- name: Read them as kubenode.ipvs.virtual_addresses takes them
  kubenode.ipvs.virtual_addresses_info:
    links: [kube-ipvs0]
    as_options: true
  register: wanted

- name: Restore this state
  kubenode.ipvs.virtual_addresses:
    links: "{{ wanted.links }}"
"""

RETURN = r"""
links:
  description: The links.
  returned: success
  type: list
  elements: dict
  contains:
    name:
      description: The name.
      type: str
    type:
      description: The kind of link, for example V(dummy). Empty for a device.
      returned: unless O(as_options)
      type: str
    up:
      description: Whether the link is up.
      type: bool
    owner:
      description: The owner by the ledger, empty if there is none.
      returned: unless O(as_options)
      type: str
    addresses:
      description: The addresses. With O(as_options) each is a string, the address with its prefix length.
      type: list
      elements: raw
      contains:
        address:
          description: The address with its prefix length.
          type: str
        owner:
          description: The owner by the ledger, empty if there is none.
          type: str
  sample:
    - {name: vips, type: dummy, up: false, owner: ansible, addresses: [{address: 192.0.2.80/32, owner: ansible}]}
"""

from ansible_collections.kubenode.ipvs.plugins.module_utils._module import info as _info


def main() -> None:
    spec = {"links": {"type": "list", "elements": "str"}, **_info.AS_OPTIONS}
    _info.run(spec, lambda params, owners: {"links": _info.links(owners, params["links"], params["as_options"])})


if __name__ == "__main__":
    main()
