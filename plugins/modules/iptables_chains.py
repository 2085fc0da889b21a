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
  - Makes sure that the given chains exist with exactly the given rules, and that built-in chains jump into them, in one
    task for many.
  - Each table is read once and changed by one C(iptables-restore --noflush), which the kernel takes as a whole or not
    at all. Rules of others, in chains of others or between ours, stay byte for byte as they are.
  - Works with both back ends (legacy and nft), see O(backend).
  - A set that a rule names has to be there. In check mode it need not, since a task before this one may be going to
    make it; a warning names it.
  - If the kernel refuses something, everything that this task did before is undone and the message names the object.
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
      - The back end. V(auto) is whichever the node's command C(iptables) is.
      - V(legacy) and V(nft) are for nodes that have both, and need the commands C(iptables-legacy-save),
        C(iptables-nft-save) and so on. What an earlier task made in the other back end stays there.
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
          - The address families in which the chain shall exist, with the same rules.
        type: list
        elements: str
        choices: [ipv4, ipv6]
        default: [ipv4]
      rules:
        description:
          - The rules in their order, each as text or as fields. They are compared as the node's own C(iptables)
            understands them, so that any spelling that it takes will do.
          - As text a rule is what stands behind C(-A) and the chain's name, for example
            V(-s 192.0.2.0/24 -p tcp -m tcp --dport 443 -j ACCEPT).
          - As fields it is a dictionary of C(protocol), C(source), C(destination), C(in_interface), C(out_interface),
            C(source_port), C(destination_port), C(ctstate), C(match_set), C(mark), C(limit), C(comment), C(jump) and
            C(goto). A value that begins with V(!) is what must not be. The ports and C(ctstate) can be lists.
            C(match_set) is a set's name and its directions, for example V(trusted src,dst). The field C(match) takes
            further matches, and C(target_options) the options of the C(jump), both as text.
          - If omitted, the chain's rules are left as they are.
        type: list
        elements: raw
      jumps:
        description:
          - From where packets come into the chain.
          - Jumps into the chain that the same O(owner) made and that are not named here are removed. If omitted, they
            are left as they are.
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
              - Which packets jump, in the spelling of C(iptables-save), for example V(-m comment --comment "web front
                end"). By default all.
            type: str
            default: ''
          position:
            description:
              - Where the jump stands. V(first) and V(last) are kept up, before or behind all rules of others.
              - With V(prepended) it is made at the head, and stays where others then push it. That is for a node on
                which other software keeps its own rules first, as Calico does; with V(first) the two would take turns.
              - Jumps with the same position stand in the order in which the task names them.
            type: str
            choices: [first, prepended, last]
            default: first
      state:
        description:
          - Whether the chain shall be there. With V(absent) the jumps into it go, too.
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

- name: Rules as fields; what is not let through is logged and dropped
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
  description: Unowned items that were in the desired state, and belong to the owner now (only with O(adopt) or
    O(purge=all)).
  returned: success
  type: list
  elements: str
  sample: ['chain IPv4 filter NODE-PORTS']
failed_steps:
  description: The steps that failed, as in RV(plan), each with a C(message). None if it was the ledger, after all of
    them.
  returned: if the task failed on its way
  type: list
  elements: dict
undone:
  description: The lines of the steps that were taken back.
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
