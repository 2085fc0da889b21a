#!/usr/bin/python
# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: service_proxy
short_description: Converge a node's whole service proxy, once
version_added: 0.1.0
description:
  - Makes of Kubernetes Services and EndpointSlices what kube-proxy's ipvs mode makes of them. Virtual servers, real
    servers, sets, chains, jumps, the link C(kube-ipvs0), its addresses, and sysctls are converged as a whole, in one
    task, and without an agent.
  - What the same O(owner) made earlier and the objects do not ask for any more is removed.
  - Nothing is changed if the configuration or, by default, an object cannot be used (O(invalid_objects)), or if
    something that is needed has another owner. If the
    kernel refuses something, everything that this task did before is undone and the message names the object.
author:
  - The kubenode.ipvs maintainers (@kubenode)
requirements:
  - The commands C(ipset), C(iptables-save) and C(iptables-restore), and those of IPv6.
  - The kernel modules C(ip_vs), that of the scheduler, C(dummy), C(ip_set), C(xt_set) and C(nf_conntrack)
    (see M(kubenode.ipvs.kernel_modules)).
  - PyYAML, if O(src) or the kubeconfig of O(agent_config) is YAML.
extends_documentation_fragment:
  - kubenode.ipvs._attributes
  - kubenode.ipvs._attributes.actiongroup_converging
  - kubenode.ipvs._ownership
  - kubenode.ipvs._confirmation
  - kubenode.ipvs._attributes.action
options:
  objects:
    description:
      - Services, EndpointSlices and Nodes as the Kubernetes API has them, or lists of them (C(kind=List)). Objects of
        other kinds are ignored.
      - The lookup plugin P(kubenode.ipvs.objects#lookup) reads them from files on the controller.
    type: list
    elements: dict
    default: []
  src:
    description:
      - A file on the node, or a directory of them (C(*.json), C(*.yaml), C(*.yml)), with more objects, for example what
        C(kubectl get services,endpointslices,nodes -A -o json) prints. JSON is read a hundred times faster than YAML.
    type: path
  config:
    description:
      - The fields of a KubeProxyConfiguration.
    type: dict
    default: {}
  agent_config:
    description:
      - The fields of an AgentConfiguration, which has what kube-proxy does not have. Those about graceful
        termination and other things that take time mean nothing here.
      - Of C(source.kubernetes) only the server and the kubeconfig on the node are read, for the addresses of the API
        server, which no Service gets.
    type: dict
    default: {}
  invalid_objects:
    description:
      - What to do with an object, or an address of a Service, that cannot be served.
      - With V(fail) the task fails and names all of them. With V(skip) each is left out and named in a warning, as the
        agent does.
    type: str
    choices: [fail, skip]
    default: fail
  node_name:
    description:
      - The name of the node in the objects.
      - If omitted, it is the configuration's C(hostnameOverride), or else the host name in lower case.
    type: str
  state:
    description:
      - With V(present) the node becomes as the objects say.
      - With V(absent) everything that the O(owner) has on the node is removed. Sysctls that this task changed since the
        last boot have their former values again, unless another process changed them since or a task
        (M(kubenode.ipvs.sysctls)) wants them for good.
    type: str
    choices: [present, absent]
    default: present
  owner:
    description:
      - The name under which the node's ledger lists what this task creates. It should be this module's alone, since
        everything of this owner that the objects do not ask for is removed.
    type: str
    default: service_proxy
  adopt:
    description:
      - Whether to take over what kube-proxy left on the node, told by its well-known names. What is wanted of it stays
        as it is, and what is not wanted is removed. kube-proxy must not run any more.
      - What its iptables mode left is removed only when the virtual servers serve.
      - By default, a task that would have to change such a thing fails and names it.
    type: bool
    default: false
notes:
  - Real servers that are not wanted any more are removed at once, and their connections end. The agent lets them drain
    (see the role P(kubenode.ipvs.agent#role)).
  - UDP flows that connection tracking remembers go on to a removed real server until they time out. The agent removes
    them.
  - IPVS's timeouts are not set. M(kubenode.ipvs.ipvs_services) has an option for them.
  - Health check node ports are let in, but no server answers on them.
seealso:
  - plugin: kubenode.ipvs.objects
    plugin_type: lookup
  - module: kubenode.ipvs.ipvs_services
  - module: kubenode.ipvs.ipsets
  - module: kubenode.ipvs.iptables_chains
"""

EXAMPLES = r"""
- name: Balance as the manifests in a directory on the controller say
  kubenode.ipvs.service_proxy:
    objects: "{{ lookup('kubenode.ipvs.objects', 'manifests', wantlist=true) }}"
    config:
      clusterCIDR: 10.244.0.0/16
      ipvs: {scheduler: wrr}

- name: A Service without a cluster
  kubenode.ipvs.service_proxy:
    objects:
      - apiVersion: v1
        kind: Service
        metadata: {name: web, namespace: default}
        spec:
          clusterIP: 10.96.0.10
          ports: [{name: http, port: 80}]
      - apiVersion: discovery.k8s.io/v1
        kind: EndpointSlice
        metadata: {name: web-1, namespace: default, labels: {kubernetes.io/service-name: web}}
        addressType: IPv4
        ports: [{name: http, port: 8080}]
        endpoints: [{addresses: [198.51.100.1]}, {addresses: [198.51.100.2]}]

- name: Take all of that away
  kubenode.ipvs.service_proxy:
    state: absent
"""

RETURN = r"""
confirmed:
  description: Whether the controller confirmed the change in time.
  returned: if O(confirm_timeout) is given and something changed
  type: bool
plan:
  description: What was done, or in check mode would be done, in this order.
  returned: success
  type: list
  elements: dict
  contains:
    kind:
      description: What kind of thing changes, for example V(virtual_server), V(member) or V(chain).
      type: str
    verb:
      description: One of V(create), V(change), V(delete).
      type: str
    key:
      description: What identifies the thing.
      type: raw
    before:
      description: What it was, null for a creation.
      type: raw
    after:
      description: What it becomes, null for a deletion.
      type: raw
  sample:
    - {kind: address, verb: create, key: {link: kube-ipvs0, address: 10.96.0.10, prefix: 32}, before: null, after: true}
lines:
  description: The same plan, one line for each step.
  returned: success
  type: list
  elements: str
  sample: ['+ virtual server tcp 10.96.0.10:80: scheduler rr']
adopted:
  description: Unowned items that were in the desired state, and belong to the owner now (only with O(adopt)).
  returned: success
  type: list
  elements: str
  sample: ['set KUBE-CLUSTER-IP']
failed_steps:
  description: The steps that failed, as in RV(plan), each with a C(message). None if it was the ledger, after all of
    them.
  returned: if the task failed on its way
  type: list
  elements: dict
undone:
  description: The lines of the steps that were taken back.
  returned: if the task failed on its way, or the change was not confirmed in time
  type: list
  elements: str
"""

from ansible_collections.kubenode.ipvs.plugins.module_utils._module.task import run
from ansible_collections.kubenode.ipvs.plugins.module_utils._tasks.service_proxy import Task


def main() -> None:
    run(Task)


if __name__ == "__main__":
    main()
