# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Differences between versions of kubeadm and kube-proxy, as tables."""

from __future__ import annotations

import re
from typing import NamedTuple

Version = tuple[int, int]
_VERSION = re.compile(r"v?(\d{1,3})\.(\d{1,3})(?:\.\d{1,3})?(?:[-+].*)?")

V1BETA3 = "kubeadm.k8s.io/v1beta3"
V1BETA4 = "kubeadm.k8s.io/v1beta4"
# The newest format that a kubeadm reads; the newest kubeadm first. Some versions also read the format before.
_API_VERSIONS: tuple[tuple[Version, str], ...] = (((1, 31), V1BETA4), ((1, 22), V1BETA3))

GATE = "KubeProxyIPVS"


class IpvsMode(NamedTuple):
    """Support of kube-proxy for its ipvs mode from a version on.

    ``works``: the mode works without the gate. ``gate``: the gate can be set.
    """

    since: Version
    works: bool
    gate: bool
    deprecated: bool


# KEP-5495, the newest version first. From 1.43 on the gate is locked, from 1.46 on its name is unknown.
_IPVS_MODES = (
    IpvsMode((1, 43), works=False, gate=False, deprecated=True),
    IpvsMode((1, 40), works=False, gate=True, deprecated=True),
    IpvsMode((1, 37), works=True, gate=True, deprecated=True),
    IpvsMode((1, 35), works=True, gate=False, deprecated=True),
    IpvsMode((1, 0), works=True, gate=False, deprecated=False),
)


def parse_version(text: str) -> Version:
    """Return major and minor of a version like ``v1.36.0``; a pre-release counts as the version it leads to.

    Raises:
        ValueError: with what was expected.
    """
    match = _VERSION.fullmatch(text)
    if match is None:
        raise ValueError("a version such as v1.36.0")
    return int(match[1]), int(match[2])


def api_version(kubeadm: Version) -> str:
    """Return the apiVersion of kubeadm's own documents.

    Raises:
        ValueError: with what was expected.
    """
    for since, api in _API_VERSIONS:
        if kubeadm >= since:
            return api
    raise ValueError(f"{spell(_API_VERSIONS[-1][0])} or newer")


def ipvs_mode(kubernetes: Version) -> IpvsMode:
    """Return the support of a kube-proxy version for its ipvs mode."""
    return next(mode for mode in _IPVS_MODES if kubernetes >= mode.since)


def ipvs_refusal(kubernetes: Version, gate: bool | None) -> str:
    """Return why kube-proxy would not run in ipvs mode, "" if it would.

    ``gate`` is the feature gate as it is given, None if it is not.
    """
    mode = ipvs_mode(kubernetes)
    if mode.gate and gate is not None:
        return "" if gate else f"the feature gate {GATE} is off"
    if mode.works:
        return ""
    if mode.gate:
        return (
            f"kube-proxy refuses ipvs mode from 1.40 on, unless the feature gate {GATE} is set in"
            " kubeadm_kube_proxy_config"
        )
    return "kube-proxy has no ipvs mode any more from 1.43 on, and no feature gate brings it back"


def gate_problem(kubernetes: Version, gate: bool | None) -> str:
    """Return why kube-proxy would not start with the given gate, "" if it would."""
    if gate is None or kubernetes >= (1, 37):
        return ""
    return f"kube-proxy {spell(kubernetes)} does not know it and would not start; it came with 1.37"


def ipvs_warning(kubernetes: Version) -> str:
    """Return the warning about kube-proxy in ipvs mode, "" if there is none."""
    if not ipvs_mode(kubernetes).deprecated:
        return ""
    return (
        f"the ipvs mode of kube-proxy {spell(kubernetes)} is deprecated (since 1.35): off by default from 1.40 on,"
        " removed in 1.43; kubeadm_proxy: agent keeps IPVS without kube-proxy"
    )


def spell(version: Version) -> str:
    """Return a version as ``major.minor``."""
    return f"{version[0]}.{version[1]}"
