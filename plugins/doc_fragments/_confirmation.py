# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This doc fragment is PRIVATE to the collection. It can change at any time, do not use it from outside.

from __future__ import annotations


class ModuleDocFragment:
    DOCUMENTATION = r"""
attributes:
  async:
    support: partial
    details:
      - Not together with O(confirm_timeout).
options:
  confirm_timeout:
    description:
      - Seconds, between 1 and 3600, within which the controller must have reached the node by a new connection after
        the change. Otherwise the node undoes the change by itself, and the task fails. Without this option nothing is
        undone.
      - The time begins when the change is made, or the process that makes it is dead.
      - The controller confirms by itself as soon as it has the task's result. The time should be longer than two
        connections take, and the connection's own timeout. The result of a hundred thousand changes is some 15 MB, and
        takes ten seconds by itself.
      - What another process changed in the meantime is left as it is. As long as a change waits, other tasks of its
        O(owner) are refused.
      - If the node reboots before it was confirmed, what the task wrote to files stays.
    type: int
"""
