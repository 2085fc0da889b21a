# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Filter ``kubeadm_config``: the documents for ``kubeadm init`` or ``kubeadm join``."""

from __future__ import annotations

from typing import Any, Callable

from ansible.errors import AnsibleFilterError

DOCUMENTATION = r"""
name: kubeadm_config
short_description: Build the configuration that kubeadm reads
version_added: 0.1.0
description:
  - Returns InitConfiguration, ClusterConfiguration, KubeProxyConfiguration and KubeletConfiguration, or a
    JoinConfiguration, as data to be dumped as YAML, in the format that the given kubeadm reads. C(v1beta4) from kubeadm
    1.31 on, C(v1beta3) before.
  - The result has a KubeProxyConfiguration only if kube-proxy will run, and a KubeletConfiguration only if the kubelet
    needs one.
  - Fails with all problems of the settings.
author:
  - The kubenode.ipvs maintainers (@kubenode)
positional: _input, kubeadm_version
options:
  _input:
    description:
      - The variables of the role P(kubenode.ipvs.kubeadm#role) that describe the cluster, without their prefix
        C(kubeadm_). Omitted variables have the defaults of the role.
    type: dict
    required: true
  kubeadm_version:
    description:
      - The output of C(kubeadm version -o short).
    type: str
    required: true
  join:
    description:
      - The values for a join. Without it, the documents are for C(kubeadm init).
    type: dict
    suboptions:
      api_server_endpoint:
        description: Host and port of the API server.
        type: str
      token:
        description: The bootstrap token.
        type: str
      ca_cert_hash:
        description: The hash of the cluster's certificate authority, with its prefix V(sha256:).
        type: str
      certificate_key:
        description: The key that encrypts the uploaded certificates, for O(control_plane=true).
        type: str
  control_plane:
    description:
      - Whether the node that joins becomes a control-plane node.
    type: bool
    default: false
seealso:
  - plugin: kubenode.ipvs.kubeadm_plan
    plugin_type: filter
"""

EXAMPLES = r"""
- name: Write what kubeadm init would read
  ansible.builtin.copy:
    dest: /root/kubeadm.yaml
    mode: "0600"
    content: "{{ documents | map('to_nice_yaml') | join('---\n') }}"
  vars:
    documents: "{{ {'pod_subnet': '10.32.0.0/16', 'ipvs_scheduler': 'wrr'} | kubenode.ipvs.kubeadm_config('v1.36.0') }}"
"""

RETURN = r"""
_value:
  description: The documents.
  type: list
  elements: dict
"""


def kubeadm_config(
    settings: Any, kubeadm_version: str, join: dict[str, Any] | None = None, control_plane: bool = False
) -> list[dict[str, Any]]:
    """Return the documents for ``kubeadm init``, or with ``join`` those for ``kubeadm join``."""
    # Imported here: for any filter, Ansible loads all filters of a collection, in the process of each task.
    from ansible_collections.kubenode.ipvs.plugins.plugin_utils.kubeadm_documents import init_documents, join_documents
    from ansible_collections.kubenode.ipvs.plugins.plugin_utils.kubeadm_plan import plan
    from ansible_collections.kubenode.ipvs.plugins.plugin_utils.kubeadm_settings import SettingsError

    try:
        decided = plan(settings, kubeadm_version)
        return init_documents(decided) if join is None else join_documents(decided, join, control_plane)
    except SettingsError as error:
        raise AnsibleFilterError(f"kubenode.ipvs.kubeadm_config: {error}") from error


class FilterModule:
    """Filters of this file."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        """Return the filters by name."""
        return {"kubeadm_config": kubeadm_config}
