# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Lookup ``objects``: Services, EndpointSlices and Nodes from files and from a cluster."""

from __future__ import annotations

DOCUMENTATION = r"""
name: objects
short_description: Read Services, EndpointSlices and Nodes from files, or from a cluster
version_added: 0.1.0
description:
  - Returns the Kubernetes objects that a service proxy needs, from files on the controller or from the cluster of a
    kubeconfig, in the order of their source. The lookup reads files as the agent's source C(manifests) does. A file may
    have one document or many, single objects, lists or the output of C(kubectl get -o json).
  - Objects of other kinds are left out. Fields that clients record about themselves (C(managedFields) and the like) are
    left out, too. A Node keeps its addresses, and no other status (images, conditions).
  - The lookup reads a cluster with C(kubectl) on the controller, which supports all ways of authentication. The user of
    the kubeconfig must be allowed to list Services, EndpointSlices and Nodes of all namespaces.
author:
  - The kubenode.ipvs maintainers (@kubenode)
options:
  _terms:
    description:
      - Files, or directories with files C(*.json), C(*.yaml) and C(*.yml). A relative path is looked up as
        M(ansible.builtin.copy) does, in C(files) too.
      - May be omitted if O(kubeconfig) is given. With both, the lookup returns the objects of both.
    type: list
    elements: str
  kubeconfig:
    description: A kubeconfig on the controller, for the cluster to read.
    type: path
  context:
    description: The context of O(kubeconfig). The default is its C(current-context).
    type: str
  kubectl:
    description: The command C(kubectl), by its path or its name in E(PATH).
    type: str
    default: kubectl
seealso:
  - module: kubenode.ipvs.service_proxy
"""

EXAMPLES = r"""
- name: Name the Services in a directory
  ansible.builtin.debug:
    msg: >-
      {{ lookup('kubenode.ipvs.objects', 'manifests', wantlist=true) |
      selectattr('kind', 'eq', 'Service') | map(attribute='metadata.name') }}

- name: Converge a node to the objects of a cluster
  kubenode.ipvs.service_proxy:
    objects: "{{ lookup('kubenode.ipvs.objects', kubeconfig='~/.kube/config', context='production', wantlist=true) }}"
"""

RETURN = r"""
_raw:
  description: The objects.
  type: list
  elements: dict
"""

import os
import re
import subprocess
from typing import Any

from ansible.errors import AnsibleLookupError
from ansible.plugins.lookup import LookupBase

from ansible_collections.kubenode.ipvs.plugins.module_utils.manifests.directory import Manifests
from ansible_collections.kubenode.ipvs.plugins.module_utils.manifests.documents import (
    DocumentError,
    ObjectKey,
    key_of,
    objects,
)

_LOG = re.compile(r"[IWEF]\d{4} ")  # begins a log line of kubectl, one for each retry; the last line repeats the error
_RESOURCES = "services,endpointslices.discovery.k8s.io,nodes"


class LookupModule(LookupBase):
    """Lookup of this file."""

    def run(self, terms: list[str], variables: Any = None, **kwargs: Any) -> list[dict[str, Any]]:
        """Return the objects of all files and of the cluster.

        Raises:
            AnsibleLookupError: a file or the cluster cannot be read, or an object is listed twice.
        """
        self.set_options(var_options=variables, direct=kwargs)
        kubeconfig = self.get_option("kubeconfig")
        if not terms and not kubeconfig:
            raise AnsibleLookupError("objects: expected files or directories, or a kubeconfig")
        by_key: dict[ObjectKey, dict[str, Any]] = {}
        for term in terms:
            path = self.find_file_in_search_path(variables or {}, "files", term, ignore_missing=True)
            if path is None:
                raise AnsibleLookupError(f"objects: {term} does not exist on the controller")
            _add(by_key, read(path), term)
        if kubeconfig:
            _add(
                by_key,
                read_cluster(self.get_option("kubectl"), kubeconfig, self.get_option("context")),
                f"the cluster of {kubeconfig}",
            )
        return list(by_key.values())


def _add(by_key: dict[ObjectKey, dict[str, Any]], more: dict[ObjectKey, dict[str, Any]], where: str) -> None:
    for key, item in more.items():
        if key in by_key:
            raise AnsibleLookupError(f"objects: {key} is in {where} and in an earlier source; name each object once")
        by_key[key] = item


def read(path: str) -> dict[ObjectKey, dict[str, Any]]:
    """Return the objects of a file or directory.

    Raises:
        AnsibleLookupError: a file cannot be used; the text lists every problem.
    """
    source = Manifests(path)
    source.scan()
    problems = [source.waiting] if source.waiting else sorted(source.problems.values())
    if problems:
        raise AnsibleLookupError("objects: " + "; ".join(problems))
    return {key: item for item in source.objects() for key in [key_of(item)] if key is not None}


def read_cluster(kubectl: str, kubeconfig: str, context: str | None) -> dict[ObjectKey, dict[str, Any]]:
    """Return the objects of a cluster.

    Raises:
        AnsibleLookupError: kubectl is missing, fails, or prints no objects; the text has its error.
    """
    where = ["--kubeconfig", os.path.expanduser(kubeconfig), *(["--context", context] if context else [])]
    words = [os.path.expanduser(kubectl), *where, "get", _RESOURCES, "--all-namespaces", "--output", "json"]
    try:
        done = subprocess.run(
            words, stdin=subprocess.DEVNULL, capture_output=True, text=True, encoding="utf-8", check=False
        )
    except OSError as error:
        raise AnsibleLookupError(f"objects: {kubectl} cannot be run on the controller: {error.strerror}") from error
    if done.returncode:
        raise AnsibleLookupError(f"objects: the cluster of {kubeconfig} cannot be read: {_errors(done)}")
    try:
        return objects(done.stdout)
    except DocumentError as error:
        raise AnsibleLookupError(
            f"objects: the cluster of {kubeconfig} returned an unusable answer: {error}"
        ) from error


def _errors(done: subprocess.CompletedProcess[str]) -> str:
    """Return kubectl's error lines, each once, since kubectl may repeat one for each kind of object."""
    lines = [line.strip() for line in done.stderr.splitlines() if line.strip() and not _LOG.match(line)]
    return "; ".join(dict.fromkeys(lines)) or f"kubectl ended with status {done.returncode}"
