# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What single values cannot tell: settings that contradict each other (kube-proxy's validation, and ours)."""

from __future__ import annotations

from ..model.net import overlap
from .config import Config


def contradictions(config: Config) -> list[str]:
    """Return what is wrong with the settings together, one sentence each."""
    found = []
    subject = "KubeProxyConfiguration"
    if config.min_sync_period > config.sync_period:
        expected = f"at most ipvs.syncPeriod ({config.sync_period:g}s)"
        found.append(f"{subject}: ipvs.minSyncPeriod is {config.min_sync_period:g}s, expected {expected}")
    needed = {
        "BridgeInterface": ("detectLocal.bridgeInterface", config.bridge_interface),
        "InterfaceNamePrefix": ("detectLocal.interfaceNamePrefix", config.interface_name_prefix),
    }.get(config.detect_local_mode)
    if needed and not needed[1]:
        found.append(f"{subject}: {needed[0]} is '', expected a name, as detectLocalMode is {config.detect_local_mode}")
    for cidr in config.service_cidrs:
        for pods in config.cluster_cidrs:
            if overlap(cidr, pods):
                found.append(f"AgentConfiguration: serviceCIDRs has {cidr!r}, expected networks apart from clusterCIDR ({pods})")
    return found
