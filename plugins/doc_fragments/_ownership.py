# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This doc fragment is PRIVATE to the collection. It can change at any time, do not use it from outside.

from __future__ import annotations


class ModuleDocFragment:
    DOCUMENTATION = r"""
options:
  owner:
    description:
      - The name under which the node's ledger lists the items of this task.
      - A task changes and removes only items of its own owner (see O(purge)). Give each role or playbook that manages a
        part of the node its own name.
      - The name V(agent) is refused, because it belongs to the service proxy that the role P(kubenode.ipvs.agent#role)
        installs.
    type: str
    default: ansible
"""

    # Modules that read a table.
    AS_OPTIONS = r"""
options:
  as_options:
    description:
      - Whether to return each item in the form of the converging module's option, without owners and counts. The result
        can then be given to that module without change.
    type: bool
    default: false
"""

    # Modules for tables that other programs use, too.
    PURGE = r"""
options:
  purge:
    description:
      - The scope of removal for items that this task does not name.
      - V(none) removes none of them.
      - V(owned) removes those of the same O(owner).
      - V(all) removes everything in the table that no other owner claims in the ledger, also items of kube-proxy and of
        administrators. This is dangerous on a node where other programs use the table. The task never touches items
        that another owner claims.
    type: str
    choices: [none, owned, all]
    default: none
  adopt:
    description:
      - Whether to take over existing unowned items that the task names.
      - By default, a task that would have to change such an item changes nothing, fails and names the item.
      - The task never takes over items that another owner claims.
    type: bool
    default: false
"""
