#!/usr/bin/python
# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: ipsets
short_description: Converge IP sets and their members
version_added: 0.1.0
description:
  - Makes sure that the kernel has the given IP sets with the given members. One task converges many sets.
  - Reads all sets once and writes only what differs, in one batch.
  - A set whose options change is replaced by swapping in a new one. The set is never missing or incomplete. A set whose
    type changes is replaced in the same way. The task fails if rules or other sets refer to such a set and the new type
    has members of another form, because the kernel does not swap these.
  - In check mode, the module makes new and changed sets in a network namespace of its own, where no other process sees
    them. The kernel may load the modules of their types for this.
  - If the kernel refuses an item, the task undoes all its changes, and the message names the item.
author:
  - The kubenode.ipvs maintainers (@kubenode)
requirements:
  - The command C(ipset) on the node.
extends_documentation_fragment:
  - kubenode.ipvs._attributes
  - kubenode.ipvs._attributes.actiongroup_converging
  - kubenode.ipvs._ownership
  - kubenode.ipvs._confirmation
  - kubenode.ipvs._attributes.action
  - kubenode.ipvs._ownership.purge
attributes:
  async:
    description: Supports being used with the C(async) keyword.
    support: none
    details:
      - A member file that the controller sends is on the node only while the controller waits.
options:
  sets:
    description:
      - The sets. Naming one twice is an error.
    type: list
    elements: dict
    default: []
    suboptions:
      name:
        description:
          - The name, of at most 31 characters.
        type: str
        required: true
      type:
        description:
          - The type, one of V(bitmap:ip), V(bitmap:ip,mac), V(bitmap:port), V(hash:ip), V(hash:ip,mac),
            V(hash:ip,mark), V(hash:ip,port), V(hash:ip,port,ip), V(hash:ip,port,net), V(hash:mac), V(hash:net),
            V(hash:net,iface), V(hash:net,net), V(hash:net,port), V(hash:net,port,net) and V(list:set).
          - Required unless O(sets[].state=absent).
        type: str
      family:
        description:
          - The address family of a hash type. V(inet) means IPv4.
        type: str
        choices: [inet, inet6]
        default: inet
      timeout:
        description:
          - The seconds after which members without a timeout of their own expire. With V(0) members can have a timeout,
            but do not expire by default.
          - Without it members cannot have timeouts.
        type: int
      counters:
        description:
          - Whether members count packets and bytes.
        type: bool
        default: false
      comment:
        description:
          - Whether members can have comments.
        type: bool
        default: false
      skbinfo:
        description:
          - Whether members can carry marks, priorities and queues.
        type: bool
        default: false
      forceadd:
        description:
          - Whether a full set drops a random member for a new one.
        type: bool
        default: false
      maxelem:
        description:
          - The largest number of members of a hash type. The default is 65536.
        type: int
      hashsize:
        description:
          - The initial size of the hash. The kernel changes the size by itself, so the task does not treat a difference
            as a change.
        type: int
      bucketsize:
        description:
          - The number of members that a bucket of the hash takes before the hash grows, from 2 to 14. A smaller bucket
            is faster to search and takes more memory. The task does not treat a difference as a change. Needs Linux
            5.11.
        type: int
      initval:
        description:
          - The initial value of the hash, for example V(0x2a). By default the kernel chooses one. The task does not
            treat a difference as a change. Needs Linux 5.11.
        type: str
      netmask:
        description:
          - The prefix length to which V(hash:ip), V(hash:ip,port), V(hash:net,net) and V(bitmap:ip) round addresses.
            Before Linux 6.2, only V(hash:ip) and V(bitmap:ip) have this option.
        type: int
      bitmask:
        description:
          - The mask, spelled as an address, that V(hash:ip), V(hash:ip,port) and V(hash:net,net) apply to addresses.
            Needs Linux 6.2.
        type: str
      markmask:
        description:
          - The mask of V(hash:ip,mark), for example V(0xffff).
        type: str
      range:
        description:
          - The range of a bitmap type, for example V(1024-65535) or V(192.0.2.0/24).
        type: str
      size:
        description:
          - The largest number of sets in a V(list:set), at least 4. The default is 8.
        type: int
      members:
        description:
          - The members in the syntax of C(ipset add). The options V(timeout), V(nomatch), V(wildcard), V(packets),
            V(bytes), V(comment), V(skbmark), V(skbprio) and V(skbqueue) follow a member, for example
            V(192.0.2.1,tcp:80) or V(192.0.2.0/24 timeout 300 nomatch).
          - Members are compared as the kernel understands them. Naming one twice is an error.
          - A running timeout goes on, unless its remaining time is longer than the given timeout. So a longer timeout
            takes effect when the member has expired and a later run adds it again.
          - The members of V(list:set) stand in the set in the order of this option. A member in the form V(NAME before
            OTHER) or V(NAME after OTHER) stands next to the member V(OTHER), which must be in the list already. With
            O(sets[].purge_members=false), this form puts a set between members that another process added. To change
            the order, the task swaps the list for a new one at once.
          - If this and O(sets[].src) are omitted, the members are left as they are.
        type: list
        elements: str
      src:
        description:
          - A file with the members, one on each line, instead of O(sets[].members). Ansible does not template these
            members. Templating takes minutes for a hundred thousand members.
          - A comment begins with C(#) at the start of a line or after a blank, but not within quotes. Empty lines are
            ignored.
          - A relative path is looked up in C(files), as M(ansible.builtin.copy) does. Every run sends the file to the
            node.
        type: path
      remote_src:
        description:
          - Whether O(sets[].src) is on the node and not on the controller.
        type: bool
        default: false
      purge_members:
        description:
          - Whether to remove members that neither O(sets[].members) nor O(sets[].src) names.
        type: bool
        default: true
      absent_members:
        description:
          - Members to remove. Has an effect only with O(sets[].purge_members=false).
        type: list
        elements: str
        default: []
      state:
        description:
          - Whether the set must exist.
        type: str
        choices: [present, absent]
        default: present
seealso:
  - module: kubenode.ipvs.ipsets_info
  - module: kubenode.ipvs.iptables_chains
"""

EXAMPLES = r"""
- name: Have a set of networks with exactly these members
  kubenode.ipvs.ipsets:
    sets:
      - name: trusted
        type: hash:net
        members:
          - 192.0.2.0/24
          - 198.51.100.0/24

- name: Add one address that expires after five minutes, leave the other members alone
  kubenode.ipvs.ipsets:
    sets:
      - name: blocked
        type: hash:ip
        family: inet6
        timeout: 0
        purge_members: false
        members:
          - 2001:db8::bad timeout 300

- name: Have exactly these sets of the owner edge
  kubenode.ipvs.ipsets:
    owner: edge
    purge: owned
    sets:
      - {name: web-v4, type: "hash:ip,port", members: ["192.0.2.80,tcp:80", "192.0.2.80,tcp:443"]}
      - {name: ports, type: "bitmap:port", range: 30000-32767, members: ["30080"]}

- name: Have the members that a file on the controller lists
  kubenode.ipvs.ipsets:
    sets:
      - {name: listed, type: "hash:net", maxelem: 500000, src: listed.txt}

- name: Look up a packet in two sets, in this order
  kubenode.ipvs.ipsets:
    sets:
      - {name: staff, type: "hash:ip", comment: true, members: ['192.0.2.7 comment "on call"']}
      - {name: partners, type: "hash:net", members: [198.51.100.0/24, 198.51.100.66 nomatch]}
      - {name: welcome, type: "list:set", members: [staff, partners]}

- name: Remove a set
  kubenode.ipvs.ipsets:
    sets:
      - {name: trusted, state: absent}
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
      description: The kind of the item, V(set) or V(member).
      type: str
    verb:
      description: The change of the item, V(create), V(change) or V(delete).
      type: str
    key:
      description: The key of the item, which identifies it within its kind.
      type: raw
    before:
      description: The value before, null for a creation.
      type: raw
    after:
      description: The value after, null for a deletion.
      type: raw
  sample:
    - {kind: member, verb: create, key: {set: trusted, member: 192.0.2.0/24}, before: null, after: ""}
lines:
  description: The same plan, one line for each step.
  returned: success
  type: list
  elements: str
  sample: ['+ member 192.0.2.0/24 of set trusted']
adopted:
  description: Unowned items that were in the desired state, and belong to the owner now (only with O(adopt) or
    O(purge=all)).
  returned: success
  type: list
  elements: str
  sample: ['set trusted']
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
from ansible_collections.kubenode.ipvs.plugins.module_utils._tasks.ipsets import Task


def main() -> None:
    run(Task)


if __name__ == "__main__":
    main()
