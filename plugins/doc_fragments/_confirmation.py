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
      - Not supported together with O(confirm_timeout).
options:
  confirm_timeout:
    description:
      - The seconds, between 1 and 3600, within which the controller must reach the node by a new connection after the
        change. Otherwise the node undoes the change by itself, and the task fails. Without this option the node undoes
        nothing.
      - The time begins when the change is made, or when the process that makes it is dead.
      - The controller confirms by itself as soon as it has the task's result. Give more time than two connections take,
        and more than the connection's own timeout. The result of a hundred thousand changes is some 15 MB, and its
        transfer takes ten seconds.
      - The node leaves items alone that another process has changed in the meantime. While a change waits, other tasks
        of its O(owner) are refused.
      - If the node reboots before the confirmation, the files that the task wrote stay.
    type: int
"""
