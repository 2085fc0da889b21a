#!/usr/bin/python
# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: iptables_chains
short_description: Converge iptables chains, their rules and the jumps into them
version_added: 0.1.0
description:
  - Makes sure that the given chains exist with exactly the given rules, and that built-in chains jump into them, in one task
    for many.
  - Each table is read once and changed by one C(iptables-restore --noflush), which the kernel takes as a whole or not at all.
    Rules of others, in chains of others or between ours, stay byte for byte as they are.
  - Works with both back ends (legacy and nft), through the commands that the node's C(iptables) is.
  - If the kernel refuses something, everything that this task did before is undone and the message names the object.
author:
  - The kubenode.ipvs maintainers (@kubenode)
requirements:
  - The commands C(iptables-save) and C(iptables-restore) on the node, for IPv6 C(ip6tables-save) and C(ip6tables-restore).
extends_documentation_fragment:
  - kubenode.ipvs._attributes
  - kubenode.ipvs._attributes.actiongroup_converging
  - kubenode.ipvs._ownership
  - kubenode.ipvs._confirmation
  - kubenode.ipvs._ownership.purge
options:
  chains:
    description:
      - The chains. Naming one twice, for the same family and table, is an error.
    type: list
    elements: dict
    default: []
    suboptions:
      name:
        description:
          - The name, of at most 28 characters. Built-in chains cannot be named here, see O(chains[].jumps).
        type: str
        required: true
      table:
        description:
          - The table.
        type: str
        choices: [filter, nat, mangle, raw, security]
        default: filter
      families:
        description:
          - The address families in which the chain shall exist, with the same rules.
        type: list
        elements: str
        choices: [ipv4, ipv6]
        default: [ipv4]
      rules:
        description:
          - The rules in their order, in the spelling of C(iptables-save), without C(-A) and the chain's name.
            For example V(-s 192.0.2.0/24 -p tcp -m tcp --dport 443 -j ACCEPT).
          - If omitted, the chain's rules are left as they are.
        type: list
        elements: str
      jumps:
        description:
          - From where packets come into the chain.
          - Jumps into the chain that the same O(owner) made and that are not named here are removed. If omitted, they are
            left as they are.
        type: list
        elements: dict
        suboptions:
          chain:
            description:
              - The built-in chain.
            type: str
            choices: [INPUT, FORWARD, OUTPUT, PREROUTING, POSTROUTING]
            required: true
          match:
            description:
              - Which packets jump, in the spelling of C(iptables-save), for example V(-m comment --comment "web front end").
                By default all.
            type: str
            default: ''
          position:
            description:
              - Whether the jump stands before or behind all rules of others.
              - Jumps with the same position stand in the order in which the task names them.
            type: str
            choices: [first, last]
            default: first
      state:
        description:
          - Whether the chain shall be there. With V(absent) the jumps into it go, too.
        type: str
        choices: [present, absent]
        default: present
seealso:
  - module: kubenode.ipvs.ipsets
"""

EXAMPLES = r"""
- name: Let only trusted networks reach the node port range
  kubenode.ipvs.iptables_chains:
    chains:
      - name: NODE-PORTS
        rules:
          - -m set --match-set trusted src -j RETURN
          - -p tcp -m tcp --dport 30000:32767 -j DROP
        jumps:
          - chain: INPUT

- name: Masquerade what leaves for the back ends, in both families
  kubenode.ipvs.iptables_chains:
    owner: edge
    purge: owned
    chains:
      - name: EDGE-SNAT
        table: nat
        families: [ipv4, ipv6]
        rules:
          - -m ipvs --ipvs -j MASQUERADE
        jumps:
          - chain: POSTROUTING
            match: -m comment --comment "edge load balancer"
            position: last

- name: Remove a chain and the jumps into it
  kubenode.ipvs.iptables_chains:
    chains:
      - {name: NODE-PORTS, state: absent}
"""

RETURN = r"""
confirmed:
  description: Whether the controller confirmed the change in time.
  returned: if O(confirm_timeout) is given and something changed
  type: bool
plan:
  description: What was done, or in check mode would be done, in this order.
  returned: success
  type: list
  elements: dict
  contains:
    kind:
      description: What kind of thing changes, V(chain) or V(jump).
      type: str
    verb:
      description: One of V(create), V(change), V(delete).
      type: str
    key:
      description: What identifies the thing.
      type: raw
    before:
      description: What it was, null for a creation. The rules of a chain, the position of a jump.
      type: raw
    after:
      description: What it becomes, null for a deletion.
      type: raw
  sample:
    - kind: chain
      verb: create
      key: {family: 4, table: filter, chain: NODE-PORTS}
      before: null
      after: ["-p tcp -m tcp --dport 30000:32767 -j DROP"]
lines:
  description: The same plan, one line for each step.
  returned: success
  type: list
  elements: str
  sample: ['+ chain IPv4 filter NODE-PORTS: 1 rule']
adopted:
  description: What was there as wanted, in nobody's name, and belongs to the owner now (only with O(adopt) or O(purge=all)).
  returned: success
  type: list
  elements: str
  sample: ['chain IPv4 filter NODE-PORTS']
failed_steps:
  description: The steps that the kernel refused, as in RV(plan), each with a C(message).
  returned: if the kernel refused something
  type: list
  elements: dict
undone:
  description: The lines of the steps that were taken back.
  returned: if the kernel refused something, or nobody confirmed the change in time
  type: list
  elements: str
"""

from ansible_collections.kubenode.ipvs.plugins.module_utils._argspec import OWNER, PURGE, STATE
from ansible_collections.kubenode.ipvs.plugins.module_utils._confirm import CONFIRM
from ansible_collections.kubenode.ipvs.plugins.module_utils._converge import run
from ansible_collections.kubenode.ipvs.plugins.module_utils._iptables_chains import prepare, reread

JUMP = {
    "chain": {"type": "str", "choices": ["INPUT", "FORWARD", "OUTPUT", "PREROUTING", "POSTROUTING"], "required": True},
    "match": {"type": "str", "default": ""},
    "position": {"type": "str", "choices": ["first", "last"], "default": "first"},
}
CHAIN = {
    "name": {"type": "str", "required": True},
    "table": {"type": "str", "choices": ["filter", "nat", "mangle", "raw", "security"], "default": "filter"},
    "families": {"type": "list", "elements": "str", "choices": ["ipv4", "ipv6"], "default": ["ipv4"]},
    "rules": {"type": "list", "elements": "str"},
    "jumps": {"type": "list", "elements": "dict", "options": JUMP},
    **STATE,
}


def main():
    run(
        {"chains": {"type": "list", "elements": "dict", "default": [], "options": CHAIN}, **OWNER, **PURGE, **CONFIRM},
        prepare,
        reread,
    )


if __name__ == "__main__":
    main()
