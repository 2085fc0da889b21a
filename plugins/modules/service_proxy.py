#!/usr/bin/python
# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: service_proxy
short_description: Converge a node's whole service proxy in one task
version_added: 0.1.0
description:
  - Serves Kubernetes Services and EndpointSlices as kube-proxy's ipvs mode does. One task converges virtual servers,
    real servers, sets, chains, jumps, the link C(kube-ipvs0), its addresses and sysctls as a whole, without an agent.
  - Items of the same O(owner) that the objects do not need any more are removed.
  - The task changes nothing if the configuration is invalid, if a needed item has another owner or, by default, if an
    object cannot be served (O(invalid_objects)). If the kernel refuses an item, the task undoes all its changes, and
    the message names the item.
author:
  - The kubenode.ipvs maintainers (@kubenode)
requirements:
  - The commands C(ipset), C(iptables-save) and C(iptables-restore), and those of IPv6. With rules in
    nftables, the node needs none of them, but nftables in a kernel of version 5.6 or newer. C(rules.backend) in
    O(agent_config) decides. By default, rules are in nftables on a new node without these commands.
  - The kernel modules C(ip_vs), that of the scheduler, C(dummy) and C(nf_conntrack), with iptables also C(ip_set) and
    C(xt_set) (see M(kubenode.ipvs.kernel_modules)).
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
      - A file on the node, or a directory of files (C(*.json), C(*.yaml), C(*.yml)), with more objects, for example
        what C(kubectl get services,endpointslices,nodes -A -o json) prints. JSON is read a hundred times faster than
        YAML.
    type: path
  config:
    description:
      - The fields of a KubeProxyConfiguration.
    type: dict
    default: {}
  agent_config:
    description:
      - The fields of an AgentConfiguration, for features that kube-proxy does not have. Fields about graceful
        termination and other delayed work have no effect here.
      - The module reads only the server and the kubeconfig of C(source.kubernetes), for the addresses of the API
        server. No Service gets these addresses.
    type: dict
    default: {}
  invalid_objects:
    description:
      - The reaction to an object, or to an address of a Service, that cannot be served.
      - With V(fail) the task fails and names all of them. With V(skip) the task leaves each out and warns of it, as the
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
      - With V(present) the node serves the objects.
      - With V(absent) all items of the O(owner) on the node are removed. Sysctls that this module changed since the
        last boot get their original values again, unless another process changed them since or a task of
        M(kubenode.ipvs.sysctls) owns them.
    type: str
    choices: [present, absent]
    default: present
  owner:
    description:
      - The name under which the node's ledger lists the items of this task. Use a name that no other module uses,
        because the task removes all items of this owner that the objects do not need.
    type: str
    default: service_proxy
  adopt:
    description:
      - Whether to take over the items that kube-proxy left on the node under its well-known names. Wanted items stay as
        they are, and unwanted items are removed. kube-proxy must not run any more.
      - Items of its iptables mode are removed only when the virtual servers serve.
      - By default, a task that would have to change such an item fails and names it.
    type: bool
    default: false
notes:
  - Unwanted real servers are removed at once, and their connections end. The agent lets them drain (see the role
    P(kubenode.ipvs.agent#role)).
  - UDP flows that connection tracking remembers go on to a removed real server until they time out. The agent removes
    them.
  - The module does not set IPVS's timeouts. M(kubenode.ipvs.ipvs_services) has an option for them.
  - Rules accept packets to health check node ports, but no server answers on them.
seealso:
  - plugin: kubenode.ipvs.objects
    plugin_type: lookup
  - module: kubenode.ipvs.ipvs_services
  - module: kubenode.ipvs.ipsets
  - module: kubenode.ipvs.iptables_chains
"""

EXAMPLES = r"""
- name: Serve the manifests in a directory on the controller
  kubenode.ipvs.service_proxy:
    objects: "{{ lookup('kubenode.ipvs.objects', 'manifests', wantlist=true) }}"
    config:
      clusterCIDR: 10.244.0.0/16
      ipvs: {scheduler: wrr}

- name: Serve a Service without a cluster
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

- name: Remove the service proxy
  kubenode.ipvs.service_proxy:
    state: absent
"""

RETURN = r"""
confirmed:
  description: Whether the controller confirmed the change in time.
  returned: if O(confirm_timeout) is given and something changed
  type: bool
plan:
  description: The steps that the task took, or in check mode would take, in their order.
  returned: success
  type: list
  elements: dict
  contains:
    kind:
      description: The kind of the item, for example V(virtual_server), V(member) or V(chain).
      type: str
    verb:
      description: The change of the item, V(create), V(change) or V(delete).
      type: str
    key:
      description: The key of the item, which identifies it within its kind.
      type: raw
    before:
      description: The value before, null for a creation.
      type: raw
    after:
      description: The value after, null for a deletion.
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
  description: The steps that failed, as in RV(plan), each with a C(message). Empty if all steps succeeded and the
    ledger could not be written.
  returned: if the task failed on its way
  type: list
  elements: dict
undone:
  description: The lines of the steps that were undone.
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
