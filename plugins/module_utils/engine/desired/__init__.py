# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a node must hold, from Kubernetes objects, a configuration and facts about the node: pure functions.

``config`` reads KubeProxyConfiguration and AgentConfiguration. ``cluster`` keeps the objects; one Service and its
EndpointSlices give one ``contribution``; the union of the contributions and the constant layout (``sets``, ``rules``,
``sysctls``) is the node's state, item for item what kube-proxy's ipvs mode makes.
"""
