#!/usr/bin/python
# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: nft_tables
short_description: Converge tables of nftables
version_added: 0.1.0
description:
  - Makes sure that the kernel holds the given tables of nftables with exactly the given chains, rules, sets, maps,
    elements and objects, in one task for many of them.
  - The body of a table is text in the language of nft(8). The node's C(nft) loads it in a network namespace of its
    own, where no other process sees it, and lists it there. That listing is compared with the listing of the table in
    use, so the spelling and the order of chains and sets do not count. What nft or the kernel refuses fails the task
    before anything is changed, and the message names the option and the line.
  - For that the kernel may load the modules that the bodies need, in check mode, too.
  - All tables are changed in one transaction. There is no moment at which a packet meets half of a change.
  - A table that differs is changed in part where possible. Chains with other rules are emptied and filled again, and
    only elements that differ are added and removed. Unchanged chains keep their counters, and other elements their
    counters and timeouts.
  - If a set, a map, an object, the header of a chain or the flags of the table differ, the whole table is replaced in
    the same transaction. Its counters begin at zero, and elements that packets added are gone.
  - Elements that packets added to a set with the flag C(dynamic), values of counters and remaining times are no
    difference.
  - Tables that the task does not name are left alone, also in the case of O(purge=owned) if another owner made them.
  - If the kernel refuses something, nothing is changed.
author:
  - The kubenode.ipvs maintainers (@kubenode)
requirements:
  - The command C(nft) on the node, from the package nftables.
extends_documentation_fragment:
  - kubenode.ipvs._attributes
  - kubenode.ipvs._attributes.actiongroup_converging
  - kubenode.ipvs._ownership
  - kubenode.ipvs._confirmation
  - kubenode.ipvs._attributes.action
options:
  tables:
    description:
      - The tables. Naming one twice is an error.
    type: list
    elements: dict
    default: []
    suboptions:
      family:
        description:
          - The address family.
        type: str
        choices: [ip, ip6, inet, arp, bridge, netdev]
        default: inet
      name:
        description:
          - The name, of letters, digits, C(_), C(.), C(/) and C(-).
        type: str
        required: true
      content:
        description:
          - The body of the table, which is what stands between its braces in the language of nft(8). It can have
            C(define) and C(include); an included file is read on the node.
          - The initial value of a counter or quota is not kept.
          - The flags C(owner) and C(persist), which bind a table to a process, are refused.
          - An interface that the text names by C(device), C(devices), C(iif) or C(oif) has to exist on the node.
          - If this is omitted, the body is left as it is.
        type: str
      state:
        description:
          - Whether the table shall be there.
        type: str
        choices: [present, absent]
        default: present
  purge:
    description:
      - Whether to remove the tables that the same O(owner) made earlier and that this task does not name.
      - V(none) leaves them, V(owned) removes them.
    type: str
    choices: [none, owned]
    default: none
  adopt:
    description:
      - Whether to take over tables that are named in the task, exist already and are unowned.
      - By default, a task that would have to change such a table fails and names it, and nothing is changed.
      - What another owner of the ledger claims is never taken over. Neither is a table of iptables, nor one that a
        process keeps for itself (flag C(owner)).
    type: bool
    default: false
notes:
  - Tables are gone after a reboot, and so are the ledger's claims on them. The task makes them again. For rules that
    shall be there before the network is, use the distribution's service C(nftables).
seealso:
  - module: kubenode.ipvs.nft_tables_info
  - module: kubenode.ipvs.iptables_chains
  - module: kubenode.ipvs.ipsets
"""

EXAMPLES = r"""
- name: Let only trusted networks reach the node ports
  kubenode.ipvs.nft_tables:
    tables:
      - name: edge
        content: |
          set trusted {
            type ipv4_addr; flags interval
            elements = { 192.0.2.0/24, 198.51.100.0/24 }
          }
          chain input {
            type filter hook input priority filter; policy accept
            tcp dport 30000-32767 ip saddr != @trusted counter drop
          }

- name: Have the tables that files on the controller hold, unless they cut the controller off
  kubenode.ipvs.nft_tables:
    tables:
      - {name: edge, content: "{{ lookup('ansible.builtin.file', 'edge.nft') }}"}
      - {name: mangling, family: ip, content: "{{ lookup('ansible.builtin.template', 'mangling.nft.j2') }}"}
    confirm_timeout: 60

- name: Have exactly this table of mine, and no other of mine
  kubenode.ipvs.nft_tables:
    owner: edge
    purge: owned
    tables:
      - name: guard
        family: ip
        content: |
          set busy { type ipv4_addr; flags dynamic; timeout 1m; }
          chain limited {
            tcp flags syn / syn,rst,ack add @busy { ip saddr limit rate over 50/second } drop
          }

- name: Remove a table
  kubenode.ipvs.nft_tables:
    tables:
      - {name: edge, state: absent}
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
      description: What kind of thing changes, V(nft_text).
      type: str
    verb:
      description: One of V(create), V(change), V(delete).
      type: str
    key:
      description: Family and name of the table.
      type: dict
    before:
      description: The body that the table had, as C(nft --stateless list table) prints it, with chains, sets and
        objects in the order of their names and one element a line; null for a creation.
      type: str
    after:
      description: The body that it gets, null for a deletion.
      type: str
  sample:
    - {kind: nft_text, verb: create, key: {family: inet, name: edge}, before: null, after: "chain input {\n}\n"}
lines:
  description: The same plan, one line for each step.
  returned: success
  type: list
  elements: str
  sample: ['+ nftables table inet edge: 2 lines']
adopted:
  description: Unowned tables that were in the desired state, and belong to the owner now (only with O(adopt)).
  returned: success
  type: list
  elements: str
  sample: ['nftables table inet edge']
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
from ansible_collections.kubenode.ipvs.plugins.module_utils._tasks.nft_tables import Task


def main() -> None:
    run(Task)


if __name__ == "__main__":
    main()
