# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The engine: desired state, plan and kernel access of the service proxy and of the modules.

Standard library only, relative imports only, Python 3.9 and newer: Ansible ships to a node exactly the files that a
module imports. The flow has one direction::

    sources -> desired (pure) -> plan (pure) -> kernel (I/O)
"""
