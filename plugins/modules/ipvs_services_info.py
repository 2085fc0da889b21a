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
  - Returns the whole IPVS table with connection counts, IPVS's timeouts and its synchronisation daemons, and the owner
    of each item by the node's ledger.
  - With O(as_options) the result can be given to M(kubenode.ipvs.ipvs_services) without change.
author:
  - The kubenode.ipvs maintainers (@kubenode)
requirements:
  - The kernel module C(ip_vs).
extends_documentation_fragment:
  - kubenode.ipvs._attributes.info
  - kubenode.ipvs._attributes.actiongroup_all
  - kubenode.ipvs._ownership.as_options
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

- name: Read it as kubenode.ipvs.ipvs_services takes it
  kubenode.ipvs.ipvs_services_info:
    as_options: true
  register: wanted

- name: Restore this table, for example on another node
  kubenode.ipvs.ipvs_services:
    services: "{{ wanted.services }}"
    timeouts: "{{ wanted.timeouts }}"
    sync_daemons: "{{ wanted.sync_daemons }}"
"""

RETURN = r"""
services:
  description: The virtual servers, each as M(kubenode.ipvs.ipvs_services) takes it.
  returned: success
  type: list
  elements: dict
  contains:
    protocol:
      description: See O(kubenode.ipvs.ipvs_services#module:services[].protocol).
      returned: unless the key is a firewall mark
      type: str
    address:
      description: See O(kubenode.ipvs.ipvs_services#module:services[].address).
      returned: unless the key is a firewall mark
      type: str
    port:
      description: See O(kubenode.ipvs.ipvs_services#module:services[].port).
      returned: unless the key is a firewall mark
      type: int
    fwmark:
      description: See O(kubenode.ipvs.ipvs_services#module:services[].fwmark).
      returned: if the key is a firewall mark
      type: int
    family:
      description: The address family, V(ipv4) or V(ipv6).
      type: str
    scheduler:
      description: See O(kubenode.ipvs.ipvs_services#module:services[].scheduler).
      type: str
    scheduler_flags:
      description: See O(kubenode.ipvs.ipvs_services#module:services[].scheduler_flags), by their general names.
      type: list
      elements: str
    persistence_timeout:
      description: See O(kubenode.ipvs.ipvs_services#module:services[].persistence_timeout).
      type: int
    netmask:
      description: See O(kubenode.ipvs.ipvs_services#module:services[].netmask), as a prefix length. It is null without
        persistence.
      type: str
    persistence_engine:
      description: See O(kubenode.ipvs.ipvs_services#module:services[].persistence_engine).
      type: str
    one_packet:
      description: See O(kubenode.ipvs.ipvs_services#module:services[].one_packet).
      type: bool
    owner:
      description: The owner by the ledger, empty if there is none.
      returned: unless O(as_options)
      type: str
    real_servers:
      description: The real servers with the options of M(kubenode.ipvs.ipvs_services) and their connection counts.
      type: list
      elements: dict
      contains:
        address:
          description: See O(kubenode.ipvs.ipvs_services#module:services[].real_servers[].address).
          type: str
        port:
          description: See O(kubenode.ipvs.ipvs_services#module:services[].real_servers[].port).
          type: int
        weight:
          description: See O(kubenode.ipvs.ipvs_services#module:services[].real_servers[].weight).
          type: int
        forwarding_method:
          description: See O(kubenode.ipvs.ipvs_services#module:services[].real_servers[].forwarding_method).
          type: str
        upper_threshold:
          description: See O(kubenode.ipvs.ipvs_services#module:services[].real_servers[].upper_threshold).
          type: int
        lower_threshold:
          description: See O(kubenode.ipvs.ipvs_services#module:services[].real_servers[].lower_threshold).
          type: int
        tunnel_type:
          description: See O(kubenode.ipvs.ipvs_services#module:services[].real_servers[].tunnel_type).
          type: str
        tunnel_port:
          description: See O(kubenode.ipvs.ipvs_services#module:services[].real_servers[].tunnel_port).
          type: int
        tunnel_checksum:
          description: See O(kubenode.ipvs.ipvs_services#module:services[].real_servers[].tunnel_checksum).
          type: str
        active_connections:
          description: Established connections.
          returned: unless O(as_options)
          type: int
        inactive_connections:
          description: Connections in other states.
          returned: unless O(as_options)
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
  description: The seconds for which IPVS remembers idle connections.
  returned: success
  type: dict
  contains:
    tcp:
      description: Established TCP connections.
      type: int
    tcp_fin:
      description: TCP connections after a FIN.
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
    role:
      description: See O(kubenode.ipvs.ipvs_services#module:sync_daemons[].role).
      type: str
    interface:
      description: See O(kubenode.ipvs.ipvs_services#module:sync_daemons[].interface).
      type: str
    sync_id:
      description: See O(kubenode.ipvs.ipvs_services#module:sync_daemons[].sync_id).
      type: int
    maxlen:
      description: See O(kubenode.ipvs.ipvs_services#module:sync_daemons[].maxlen).
      type: int
    group:
      description: See O(kubenode.ipvs.ipvs_services#module:sync_daemons[].group).
      type: str
    port:
      description: See O(kubenode.ipvs.ipvs_services#module:sync_daemons[].port).
      type: int
    ttl:
      description: See O(kubenode.ipvs.ipvs_services#module:sync_daemons[].ttl).
      type: int
    owner:
      description: The owner by the ledger, empty if there is none.
      returned: unless O(as_options)
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

from typing import Any

from ansible_collections.kubenode.ipvs.plugins.module_utils._module import info as _info
from ansible_collections.kubenode.ipvs.plugins.module_utils._module.planning import Owners


def gather(params: dict[str, Any], owners: Owners) -> dict[str, Any]:
    timeouts, daemons = _info.ipvs_settings(owners, params["as_options"])
    return {"services": _info.services(owners, params["as_options"]), "timeouts": timeouts, "sync_daemons": daemons}


def main() -> None:
    _info.run(_info.AS_OPTIONS, gather)


if __name__ == "__main__":
    main()
