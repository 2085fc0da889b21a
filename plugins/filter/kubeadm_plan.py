# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Filter ``kubeadm_plan``: the proxy and the versions of a cluster, decided from the settings."""

from __future__ import annotations

from typing import Any, Callable

from ansible.errors import AnsibleFilterError
from ansible.utils.display import Display

DOCUMENTATION = r"""
name: kubeadm_plan
short_description: Decide which service proxy a cluster of kubeadm gets
version_added: 0.1.0
description:
  - Decides by the version of Kubernetes whether kube-proxy runs in ipvs mode or the agent takes its place. Returns the
    configuration of that proxy.
  - Up to Kubernetes 1.39 kube-proxy can run in ipvs mode, with a warning from 1.35 on. From 1.40 on it refuses ipvs
    mode unless its feature gate C(KubeProxyIPVS) is set, and from 1.43 on always.
  - Fails with all problems of the settings, and displays warnings.
author:
  - The kubenode.ipvs maintainers (@kubenode)
positional: _input, kubeadm_version
options:
  _input:
    description:
      - The variables of the role P(kubenode.ipvs.kubeadm#role) that describe the cluster, without their prefix
        C(kubeadm_).
    type: dict
    required: true
  kubeadm_version:
    description:
      - The output of C(kubeadm version -o short).
    type: str
    required: true
seealso:
  - plugin: kubenode.ipvs.kubeadm_config
    plugin_type: filter
"""

EXAMPLES = r"""
- name: Show the decided proxy
  ansible.builtin.debug:
    msg: "{{ ({'proxy': 'auto'} | kubenode.ipvs.kubeadm_plan('v1.40.0')).proxy }}" # agent
"""

RETURN = r"""
_value:
  description: The decisions that follow from the settings.
  type: dict
  contains:
    proxy:
      description: The service proxy, V(kube-proxy) or V(agent).
      type: str
    proxy_config:
      description: The KubeProxyConfiguration, for either proxy.
      type: dict
    kubernetes_version:
      description: The version of the cluster.
      type: str
    api_version:
      description: The apiVersion of kubeadm's own documents.
      type: str
    warnings:
      description: Warnings about the settings, for example about an ipvs mode that is deprecated.
      type: list
      elements: str
"""


def kubeadm_plan(settings: Any, kubeadm_version: str) -> dict[str, Any]:
    """Return the proxy, its configuration, versions and warnings that follow from the settings."""
    # Imported here: for any filter, Ansible loads all filters of a collection, in the process of each task.
    from ansible_collections.kubenode.ipvs.plugins.plugin_utils.kubeadm_plan import plan
    from ansible_collections.kubenode.ipvs.plugins.plugin_utils.kubeadm_settings import SettingsError

    try:
        decided = plan(settings, kubeadm_version)
    except SettingsError as error:
        raise AnsibleFilterError(f"kubenode.ipvs.kubeadm_plan: {error}") from error
    for text in decided.warnings:
        Display().warning(text)
    return {
        name: getattr(decided, name)
        for name in ("proxy", "proxy_config", "kubernetes_version", "api_version", "warnings")
    }


class FilterModule:
    """Filters of this file."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        """Return the filters by name."""
        return {"kubeadm_plan": kubeadm_plan}
