# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Desired state of a node, from Kubernetes objects, a configuration and facts about the node: pure functions.

``settings`` reads KubeProxyConfiguration and AgentConfiguration. ``cluster`` keeps the objects. ``service_vips`` turns
one Service and its EndpointSlices into a contribution. The union of the contributions and the static state (``sets``,
``rules``, ``sysctls``) is the node's state, item for item as kube-proxy's ipvs mode creates it.
"""
