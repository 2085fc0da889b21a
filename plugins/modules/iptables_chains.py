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
  - Makes sure that the given chains exist with exactly the given rules, and that built-in chains jump into them. One
    task converges many chains.
  - The module reads each table once and changes it by one C(iptables-restore --noflush), which the kernel accepts as a
    whole or refuses as a whole. Rules of other programs stay byte for byte as they are, also between rules of this
    collection.
  - Works with both back ends (legacy and nft), see O(backend).
  - A set that a rule names must exist. In check mode a missing set is only a warning, because an earlier task may be
    about to create it.
  - If the kernel refuses an item, the task undoes all its changes, and the message names the item.
author:
  - The kubenode.ipvs maintainers (@kubenode)
requirements:
  - The commands C(iptables-save) and C(iptables-restore) on the node, for IPv6 C(ip6tables-save) and
    C(ip6tables-restore).
extends_documentation_fragment:
  - kubenode.ipvs._attributes
  - kubenode.ipvs._attributes.actiongroup_converging
  - kubenode.ipvs._ownership
  - kubenode.ipvs._confirmation
  - kubenode.ipvs._attributes.action
  - kubenode.ipvs._ownership.purge
options:
  backend:
    description:
      - The back end. With V(auto) it is the back end of the node's command C(iptables).
      - V(legacy) and V(nft) are for nodes that have both, and need the commands C(iptables-legacy-save),
        C(iptables-nft-save) and so on. Chains that an earlier task made in the other back end stay there.
    type: str
    choices: [auto, legacy, nft]
    default: auto
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
          - The address families of the chain. It has the same rules in each.
        type: list
        elements: str
        choices: [ipv4, ipv6]
        default: [ipv4]
      rules:
        description:
          - The rules in their order, each as text or as fields. The module compares them as the node's own C(iptables)
            understands them, so any spelling that C(iptables) accepts is possible.
          - As text a rule is the part after C(-A) and the chain's name, for example V(-s 192.0.2.0/24 -p tcp -m tcp
            --dport 443 -j ACCEPT).
          - As fields it is a dictionary of C(protocol), C(source), C(destination), C(in_interface), C(out_interface),
            C(source_port), C(destination_port), C(ctstate), C(match_set), C(mark), C(limit), C(comment), C(jump) and
            C(goto). A V(!) before a value negates it. The ports and C(ctstate) can be lists. C(match_set) is a set's
            name and its directions, for example V(trusted src,dst). The field C(match) takes further matches, and
            C(target_options) the options of the C(jump), both as text.
          - If omitted, the chain's rules are left as they are.
        type: list
        elements: raw
      jumps:
        description:
          - The jumps from built-in chains into this chain.
          - Jumps into the chain that the same O(owner) made and this option does not name are removed. If omitted, all
            jumps stay.
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
              - The match of the packets that jump, in the spelling of C(iptables-save), for example V(-m comment
                --comment "web front end"). By default all packets jump.
            type: str
            default: ''
          position:
            description:
              - The position of the jump in the built-in chain. With V(first) and V(last), each run moves the jump
                before or after all rules of other programs.
              - With V(prepended) the task makes the jump at the head of the chain, and leaves it where other rules push
                it later. Use it on a node where other software keeps its own rules first, for example Calico. With
                V(first) the two would move their rules in turn.
              - Jumps with the same position stand in the order in which the task names them.
            type: str
            choices: [first, prepended, last]
            default: first
      state:
        description:
          - Whether the chain must exist. With V(absent) the task also removes the jumps into it.
        type: str
        choices: [present, absent]
        default: present
seealso:
  - module: kubenode.ipvs.iptables_chains_info
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

- name: Write rules as fields, and log and drop all other packets
  kubenode.ipvs.iptables_chains:
    chains:
      - name: WEB
        rules:
          - {protocol: tcp, destination_port: [80, 443], match_set: trusted src, jump: RETURN}
          - {source: "!192.0.2.0/24", ctstate: NEW, jump: LOG, target_options: '--log-prefix "web: "'}
          - {comment: nobody else, jump: DROP}
        jumps:
          - chain: INPUT
            match: -p tcp -m multiport --dports 80,443

- name: Masquerade packets to the back ends, in both families
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
  description: The steps that the task took, or in check mode would take, in their order.
  returned: success
  type: list
  elements: dict
  contains:
    kind:
      description: The kind of the item, V(chain) or V(jump).
      type: str
    verb:
      description: The change of the item, V(create), V(change) or V(delete).
      type: str
    key:
      description: The key of the item, which identifies it within its kind.
      type: raw
    before:
      description: The value before, null for a creation. It has the rules of a chain, or the position of a jump.
      type: raw
    after:
      description: The value after, null for a deletion.
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
  description: Unowned items that were in the desired state, and belong to the owner now (only with O(adopt) or
    O(purge=all)).
  returned: success
  type: list
  elements: str
  sample: ['chain IPv4 filter NODE-PORTS']
failed_steps:
  description: The steps that failed, as in RV(plan), each with a C(message). Empty if all steps succeeded and the
    ledger could not be written.
  returned: if the task failed on its way
  type: list
  elements: dict
undone:
  description: The lines of the steps that were undone.
  returned: if the task failed on its way, or the change was not confirmed in time
  type: list
  elements: str
"""

from ansible_collections.kubenode.ipvs.plugins.module_utils._module.task import run
from ansible_collections.kubenode.ipvs.plugins.module_utils._tasks.iptables_chains import Task


def main() -> None:
    run(Task)


if __name__ == "__main__":
    main()
