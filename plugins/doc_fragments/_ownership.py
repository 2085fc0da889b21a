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
      - The name under which the node's ledger lists what this task creates.
      - A task changes and removes only what its own owner made (see O(purge)). Give each role or playbook that
        manages a part of the node its own name.
      - The name V(agent) belongs to the service proxy that the role P(kubenode.ipvs.agent#role) installs and is
        refused.
    type: str
    default: ansible
"""

    # For modules that read a table.
    AS_OPTIONS = r"""
options:
  as_options:
    description:
      - Whether to return of each thing only what the module that converges it takes, in the form in which it takes it,
        so that the result can be that module's option as it is. Owners and counts are left out.
    type: bool
    default: false
"""

    # For the tables that hold other people's things too.
    PURGE = r"""
options:
  purge:
    description:
      - What happens to things that this task does not name.
      - V(none) leaves all of them.
      - V(owned) removes those that the same O(owner) made earlier.
      - V(all) removes everything in the table that no other owner claims in the ledger, also items of kube-proxy
        and of administrators. This is dangerous on a node that others use, too. What another owner of the ledger
        claims is never touched.
    type: str
    choices: [none, owned, all]
    default: none
  adopt:
    description:
      - Whether to take over things that are named in the task, exist already and are unowned.
      - By default, a task that would have to change such a thing fails and names it, and nothing is changed.
      - What another owner of the ledger claims is never taken over.
    type: bool
    default: false
"""
