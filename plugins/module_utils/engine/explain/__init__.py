# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Explain a connection: predict the path of its packets from a node's state, and name the fault. Pure functions.

:mod:`.view` has the node's state, :mod:`.flow` the connection and its path. :mod:`.predict` follows the packets through
the kernel, with :mod:`.routes`, :mod:`.iptables_walk` and :mod:`.nft_walk`. :mod:`.faults` compares with the desired
state.
"""
