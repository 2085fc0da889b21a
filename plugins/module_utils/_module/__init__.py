# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This module util is PRIVATE to the collection. It can change at any time, do not use it from outside.

"""Module pattern: argument specs, tasks, results, information modules.

A module that converges items of the ledger is ``run(Task)`` (``task.py``), an information module ``run(spec, gather)``
(``info.py``). ``packages``, ``agent_install``, ``swap`` and ``node_check`` have neither items nor owners: each has a
``main`` of its own.
"""
