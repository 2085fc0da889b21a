# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This doc fragment is PRIVATE to the collection. It can change at any time, do not use it from outside.

from __future__ import annotations


class ModuleDocFragment:
    DOCUMENTATION = r"""
options: {}
attributes:
  check_mode:
    description: Can run in C(check_mode) and return changed status prediction without modifying target.
    support: full
  diff_mode:
    description: Will return details on what has changed (or possibly needs changing in C(check_mode)), when in diff
      mode.
    support: full
  idempotent:
    description: When run twice in a row outside check mode, with the same arguments, the second invocation indicates no
      change.
    support: full
  platform:
    description: The systems that this can run on.
    support: full
    platforms: linux
"""

    # Modules that only read.
    INFO = r"""
options: {}
attributes:
  check_mode:
    description: Can run in C(check_mode) and return changed status prediction without modifying target.
    support: full
    details:
      - This action does not modify state.
  diff_mode:
    description: Will return details on what has changed (or possibly needs changing in C(check_mode)), when in diff
      mode.
    support: N/A
    details:
      - This action does not modify state.
  idempotent:
    description: When run twice in a row outside check mode, with the same arguments, the second invocation indicates no
      change.
    support: full
    details:
      - This action does not modify state.
  platform:
    description: The systems that this can run on.
    support: full
    platforms: linux
"""

    # Modules with an action plugin. List a fragment that supports more before this one: Ansible takes the first.
    ACTION = r"""
options: {}
attributes:
  action:
    description: Indicates this has a corresponding action plugin so some parts of the options can be executed on the
      controller.
    support: full
  async:
    description: Supports being used with the C(async) keyword.
    support: none
"""

    ACTIONGROUP_ALL = r"""
options: {}
attributes:
  action_group:
    description: Use C(group/kubenode.ipvs.all) in C(module_defaults) to set defaults for all modules of the collection.
    support: full
    membership:
      - kubenode.ipvs.all
"""

    ACTIONGROUP_CONVERGING = r"""
options: {}
attributes:
  action_group:
    description: Use C(group/kubenode.ipvs.converging) in C(module_defaults) to set O(owner) for all modules that have
      it.
    support: full
    membership:
      - kubenode.ipvs.all
      - kubenode.ipvs.converging
"""
