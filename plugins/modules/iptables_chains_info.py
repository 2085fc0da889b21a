#!/usr/bin/python
# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: iptables_chains_info
short_description: Read iptables chains and rules
version_added: 0.1.0
description:
  - Returns chains with their rules, the rules of built-in chains, and the owner of each by the node's ledger.
author:
  - The kubenode.ipvs maintainers (@kubenode)
requirements:
  - The command C(iptables-save) on the node, for IPv6 C(ip6tables-save).
extends_documentation_fragment:
  - kubenode.ipvs._attributes.info
  - kubenode.ipvs._attributes.actiongroup_all
  - kubenode.ipvs._ownership.as_options
options:
  families:
    description:
      - The address families.
    type: list
    elements: str
    choices: [ipv4, ipv6]
    default: [ipv4, ipv6]
  tables:
    description:
      - The tables. By default all tables in use.
    type: list
    elements: str
    choices: [filter, nat, mangle, raw, security]
seealso:
  - module: kubenode.ipvs.iptables_chains
"""

EXAMPLES = r"""
- name: Read the rules of the table nat
  kubenode.ipvs.iptables_chains_info:
    families: [ipv4]
    tables: [nat]
  register: rules

- name: Read all chains as kubenode.ipvs.iptables_chains takes them
  kubenode.ipvs.iptables_chains_info:
    as_options: true
  register: wanted

- name: Restore this state
  kubenode.ipvs.iptables_chains:
    chains: "{{ wanted.chains }}"
"""

RETURN = r"""
chains:
  description: The chains that are not built in. RV(rules) has the jumps into them.
  returned: success
  type: list
  elements: dict
  contains:
    name:
      description: The name.
      type: str
    table:
      description: The table.
      type: str
    families:
      description: The address family, V(ipv4) or V(ipv6). A chain of both families is listed twice.
      type: list
      elements: str
    rules:
      description: The rules in their order, as C(iptables-save) spells them.
      type: list
      elements: str
    owner:
      description: The owner by the ledger, empty if there is none.
      returned: unless O(as_options)
      type: str
  sample:
    - {name: NODE-PORTS, table: filter, families: [ipv4], rules: ["-p tcp -m tcp --dport 30000:32767 -j DROP"], owner:
      ansible}
rules:
  description: "The rules of built-in chains. A rule that repeats an earlier rule of its chain ends with C( # 2) and so
    on."
  returned: success
  type: list
  elements: dict
  contains:
    chain:
      description: The built-in chain.
      type: str
    table:
      description: The table.
      type: str
    family:
      description: The address family, V(ipv4) or V(ipv6).
      type: str
    rule:
      description: The rule, as C(iptables-save) spells it.
      type: str
    owner:
      description: The owner by the ledger, empty if there is none.
      type: str
    position:
      description: The position of the rule in the chain, from 1.
      type: int
  sample:
    - {chain: INPUT, table: filter, family: ipv4, position: 1, rule: "-j NODE-PORTS", owner: ansible}
"""

from typing import Any

from ansible_collections.kubenode.ipvs.plugins.module_utils._module import info as _info
from ansible_collections.kubenode.ipvs.plugins.module_utils._module.planning import Owners


def gather(params: dict[str, Any], owners: Owners) -> dict[str, Any]:
    own, built_in = _info.chains(
        owners, [4 if family == "ipv4" else 6 for family in params["families"]], params["tables"], params["as_options"]
    )
    return {"chains": own, "rules": built_in}


def main() -> None:
    spec = {
        "families": {"type": "list", "elements": "str", "choices": ["ipv4", "ipv6"], "default": ["ipv4", "ipv6"]},
        "tables": {"type": "list", "elements": "str", "choices": ["filter", "nat", "mangle", "raw", "security"]},
        **_info.AS_OPTIONS,
    }
    _info.run(spec, gather)


if __name__ == "__main__":
    main()
