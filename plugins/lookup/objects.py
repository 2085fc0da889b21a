# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The lookup objects."""

from __future__ import annotations

DOCUMENTATION = r"""
name: objects
short_description: Read Services, EndpointSlices and Nodes from files
version_added: 0.1.0
description:
  - Returns the Kubernetes objects that a service proxy needs from files on the controller, in the order in which they were found.
    Files are read by the rules of the agent's source C(manifests). They may have one document or many, single objects, lists or
    what C(kubectl get -o json) prints.
  - Objects of other kinds are left out, and so is what clients write down about themselves (C(managedFields) and the like).
  - There is no lookup that asks a cluster, since that needs a client library. C(kubectl) is one, see the examples.
author:
  - The kubenode.ipvs maintainers (@kubenode)
options:
  _terms:
    description:
      - Files, or directories of which all C(*.json), C(*.yaml) and C(*.yml) are read. A relative path is looked for as that of
        M(ansible.builtin.copy), in C(files) too.
    type: list
    elements: str
    required: true
seealso:
  - module: kubenode.ipvs.service_proxy
"""

EXAMPLES = r"""
- name: Name the Services in a directory
  ansible.builtin.debug:
    msg: "{{ lookup('kubenode.ipvs.objects', 'manifests', wantlist=true) | selectattr('kind', 'eq', 'Service') | map(attribute='metadata.name') }}"

- name: Ask a cluster
  ansible.builtin.command: kubectl get services,endpointslices,nodes --all-namespaces --output json
  delegate_to: localhost
  changed_when: false
  register: asked

- name: Converge a node by what it said
  kubenode.ipvs.service_proxy:
    objects: ["{{ asked.stdout | from_json }}"]
"""

RETURN = r"""
_raw:
  description: The objects.
  type: list
  elements: dict
"""

from typing import Any

from ansible.errors import AnsibleLookupError
from ansible.plugins.lookup import LookupBase

from ansible_collections.kubenode.ipvs.plugins.module_utils.objects.documents import ObjectKey, key_of
from ansible_collections.kubenode.ipvs.plugins.module_utils.objects.manifests import Manifests


class LookupModule(LookupBase):
    """Ansible's way to find the lookup."""

    def run(self, terms: list[str], variables: Any = None, **kwargs: Any) -> list[dict[str, Any]]:
        """Return the objects of all files.

        Raises:
            AnsibleLookupError: a file cannot be used, or an object is there twice.
        """
        self.set_options(var_options=variables, direct=kwargs)
        found: dict[ObjectKey, dict[str, Any]] = {}
        for term in terms:
            path = self.find_file_in_search_path(variables or {}, "files", term, ignore_missing=True)
            if path is None:
                raise AnsibleLookupError(f"objects: there is no {term} on the controller")
            for key, item in read(path).items():
                if key in found:
                    raise AnsibleLookupError(
                        f"objects: {key} is in {term}, and in what is named before it; name each object once"
                    )
                found[key] = item
        return list(found.values())


def read(path: str) -> dict[ObjectKey, dict[str, Any]]:
    """Return the objects of a file or directory.

    Raises:
        AnsibleLookupError: with everything that is wrong.
    """
    source = Manifests(path)
    source.scan()
    problems = [source.waiting] if source.waiting else sorted(source.problems.values())
    if problems:
        raise AnsibleLookupError("objects: " + "; ".join(problems))
    return {key: item for item in source.objects() for key in [key_of(item)] if key is not None}
