#!/usr/bin/python
# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: ipvs_services_info
short_description: Read IPVS virtual servers and real servers
version_added: 0.1.0
description:
  - Returns the whole IPVS table with connection counts, IPVS's timeouts and its synchronisation daemons, and says which owner of
    the node's ledger made what.
  - What it returns can be given to M(kubenode.ipvs.ipvs_services) once C(owner), C(active_connections) and
    C(inactive_connections) are taken out.
author:
  - The kubenode.ipvs maintainers (@kubenode)
requirements:
  - The kernel module C(ip_vs).
extends_documentation_fragment:
  - kubenode.ipvs._attributes
  - kubenode.ipvs._attributes.info
  - kubenode.ipvs._attributes.actiongroup_all
seealso:
  - module: kubenode.ipvs.ipvs_services
"""

EXAMPLES = r"""
- name: Read the table
  kubenode.ipvs.ipvs_services_info:
  register: table

- name: Stop if a real server has connections
  ansible.builtin.assert:
    that: table.services | map(attribute='real_servers') | flatten | map(attribute='active_connections') | sum == 0
"""

RETURN = r"""
services:
  description: The virtual servers, each as M(kubenode.ipvs.ipvs_services) takes it.
  returned: success
  type: list
  elements: dict
  contains:
    owner:
      description: Who made it by the ledger, empty if the ledger knows nobody.
      type: str
    real_servers:
      description: The real servers, with the counts of their connections beside what M(kubenode.ipvs.ipvs_services) takes.
      type: list
      elements: dict
      contains:
        active_connections:
          description: Established connections.
          type: int
        inactive_connections:
          description: Connections in other states.
          type: int
  sample:
    - protocol: tcp
      address: 192.0.2.80
      port: 80
      family: ipv4
      scheduler: rr
      scheduler_flags: []
      persistence_timeout: 0
      netmask: null
      persistence_engine: ""
      one_packet: false
      owner: ansible
      real_servers:
        - address: 198.51.100.11
          port: 8080
          weight: 1
          forwarding_method: masquerade
          upper_threshold: 0
          lower_threshold: 0
          tunnel_type: ipip
          tunnel_port: 0
          tunnel_checksum: none
          active_connections: 3
          inactive_connections: 12
timeouts:
  description: For how many seconds IPVS remembers connections on which nothing moves.
  returned: success
  type: dict
  contains:
    tcp:
      description: Established TCP connections.
      type: int
    tcp_fin:
      description: TCP connections that are being closed.
      type: int
    udp:
      description: UDP.
      type: int
  sample: {tcp: 900, tcp_fin: 120, udp: 300}
sync_daemons:
  description: The synchronisation daemons that run, each as M(kubenode.ipvs.ipvs_services) takes it.
  returned: success
  type: list
  elements: dict
  contains:
    owner:
      description: Who started it by the ledger, empty if the ledger knows nobody.
      type: str
  sample:
    - role: master
      interface: eth0
      sync_id: 7
      maxlen: 1472
      group: 224.0.0.81
      port: 8848
      ttl: 1
      owner: ansible
"""

from ansible_collections.kubenode.ipvs.plugins.module_utils import _info


def gather(_params, owners):
    timeouts, daemons = _info.ipvs_settings(owners)
    return {"services": _info.services(owners), "timeouts": timeouts, "sync_daemons": daemons}


def main():
    _info.run({}, gather)


if __name__ == "__main__":
    main()
