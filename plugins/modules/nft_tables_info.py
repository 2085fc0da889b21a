#!/usr/bin/python
# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: nft_tables_info
short_description: Read tables of nftables
version_added: 0.1.0
description:
  - Returns tables with their bodies, and says which owner of the node's ledger made what.
author:
  - The kubenode.ipvs maintainers (@kubenode)
requirements:
  - The command C(nft) on the node, from the package nftables.
extends_documentation_fragment:
  - kubenode.ipvs._attributes.info
  - kubenode.ipvs._attributes.actiongroup_all
  - kubenode.ipvs._ownership.as_options
options:
  names:
    description:
      - Which tables, by family and name, for example V(inet edge). By default all. Tables that do not exist are left
        out.
    type: list
    elements: str
  objects:
    description:
      - Whether to return chains, rules, sets and other objects also as nft's JSON has them. Needs an C(nft) that is
        built with JSON.
    type: bool
    default: false
notes:
  - With O(as_options) the tables that M(kubenode.ipvs.nft_tables) cannot write are left out.
seealso:
  - module: kubenode.ipvs.nft_tables
"""

EXAMPLES = r"""
- name: Read a table
  kubenode.ipvs.nft_tables_info:
    names: [inet edge]
    objects: true
  register: read

- name: Read all tables as kubenode.ipvs.nft_tables takes them
  kubenode.ipvs.nft_tables_info:
    as_options: true
  register: wanted

- name: Have the same again
  kubenode.ipvs.nft_tables:
    tables: "{{ wanted.tables }}"
"""

RETURN = r"""
tables:
  description: The tables with the options that M(kubenode.ipvs.nft_tables) takes.
  returned: success
  type: list
  elements: dict
  contains:
    family:
      description: As O(kubenode.ipvs.nft_tables#module:tables[].family).
      type: str
    name:
      description: As O(kubenode.ipvs.nft_tables#module:tables[].name).
      type: str
    content:
      description: As O(kubenode.ipvs.nft_tables#module:tables[].content), as C(nft --stateless list table) prints it,
        with chains, sets and objects in the order of their names and one element a line.
      type: str
    objects:
      description: Chains, rules, sets and other objects as C(nft --json) prints them, without handles.
      returned: with O(objects), unless O(as_options)
      type: list
      elements: dict
    flags:
      description: The flags of the table, for example V(dormant).
      returned: unless O(as_options)
      type: list
      elements: str
    writable:
      description: Whether M(kubenode.ipvs.nft_tables) can write the table. It cannot write a table of iptables, one
        that a process keeps for itself, nor one that a service proxy claims.
      returned: unless O(as_options)
      type: bool
    owner:
      description: Its owner by the ledger, empty if it has none.
      returned: unless O(as_options)
      type: str
  sample:
    - {family: inet, name: edge, content: "chain input {\n}\n", flags: [], writable: true, owner: ansible}
"""

from ansible_collections.kubenode.ipvs.plugins.module_utils._module import info as _info


def main() -> None:
    spec = {
        "names": {"type": "list", "elements": "str"},
        "objects": {"type": "bool", "default": False},
        **_info.AS_OPTIONS,
    }
    _info.run(
        spec,
        lambda params, owners: {
            "tables": _info.nft_tables(owners, params["names"], params["objects"], params["as_options"])
        },
    )


if __name__ == "__main__":
    main()
