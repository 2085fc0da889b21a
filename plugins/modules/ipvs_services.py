#!/usr/bin/python
# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: ipvs_services
short_description: Converge IPVS virtual servers and their real servers
version_added: 0.1.0
description:
  - Makes sure that the kernel's IPVS table has the given virtual servers and real servers. One task converges many of
    them.
  - Talks to the kernel over netlink. Needs neither C(ipvsadm) nor any Python library on the node.
  - Weights, thresholds, schedulers and flags are changed in place, so that established connections go on. Removals come
    last. With O(drain) they wait until connections have ended.
  - If the kernel refuses an item, the task undoes all its changes, and the message names the item.
author:
  - The kubenode.ipvs maintainers (@kubenode)
requirements:
  - The kernel module C(ip_vs) and the modules of the schedulers used (see M(kubenode.ipvs.kernel_modules)).
extends_documentation_fragment:
  - kubenode.ipvs._attributes
  - kubenode.ipvs._attributes.actiongroup_converging
  - kubenode.ipvs._ownership
  - kubenode.ipvs._confirmation
  - kubenode.ipvs._attributes.action
  - kubenode.ipvs._ownership.purge
  - kubenode.ipvs._ipvs.settings
  - kubenode.ipvs._ipvs.drain
options:
  services:
    description:
      - The virtual servers.
      - The key of a virtual server is O(services[].protocol), O(services[].address) and O(services[].port), or
        O(services[].fwmark) and O(services[].family). Naming one twice is an error.
    type: list
    elements: dict
    default: []
    suboptions:
      protocol:
        description: The protocol. Required unless O(services[].fwmark) is given.
        type: str
        choices: [tcp, udp, sctp]
      address:
        description: The IPv4 or IPv6 address. Required unless O(services[].fwmark) is given.
        type: str
      port:
        description:
          - The port. Required unless O(services[].fwmark) is given.
          - V(0) means all ports. The kernel allows that only for a persistent virtual server.
        type: int
      fwmark:
        description:
          - The firewall mark of the virtual server's packets, from 1 to 4294967295, instead of protocol, address and
            port.
        type: int
      family:
        description: The address family of a virtual server with O(services[].fwmark).
        type: str
        choices: [ipv4, ipv6]
        default: ipv4
      scheduler:
        description:
          - The name of the scheduler, for example V(rr), V(wrr), V(lc), V(wlc), V(sh), V(dh), V(mh), V(lblc), V(lblcr),
            V(sed), V(nq), V(fo), V(ovf) or V(twos).
          - The kernel decides which names exist. The task fails if the kernel does not know the name.
        type: str
        default: rr
      scheduler_flags:
        description:
          - Flags for the scheduler.
          - V(sh-fallback) and V(mh-fallback) choose another real server when the chosen one is unavailable, V(sh-port)
            and V(mh-port) hash the source port, too. They are aliases of V(flag-1) and V(flag-2).
        type: list
        elements: str
        choices: [flag-1, flag-2, flag-3, sh-fallback, sh-port, mh-fallback, mh-port]
        default: []
      persistence_timeout:
        description:
          - The seconds, at most 4294967, for which connections from one client go to the same real server.
          - V(0) turns persistence off.
        type: int
        default: 0
      netmask:
        description:
          - The network of clients that persistence treats as one client, as a prefix length (V(24), V(64)) or, for
            IPv4, as a netmask (V(255.255.255.0)).
          - Without it every address is one client.
        type: str
      persistence_engine:
        description: The persistence engine, for example V(sip).
        type: str
        default: ''
      one_packet:
        description: Whether to choose a real server for every datagram (UDP only).
        type: bool
        default: false
      real_servers:
        description:
          - The real servers.
          - If omitted, the virtual server's real servers are left as they are.
        type: list
        elements: dict
        suboptions:
          address:
            description:
              - The address. With O(services[].real_servers[].forwarding_method=tunnel) it may have the other address
                family.
            type: str
            required: true
          port:
            description:
              - The port. The default is the virtual server's port. With O(services[].fwmark) it is V(0), which keeps
                the port of the packet.
              - Only O(services[].real_servers[].forwarding_method=masquerade) changes the port of packets.
            type: int
          weight:
            description: The weight. V(0) means no new connections.
            type: int
            default: 1
          forwarding_method:
            description: The forwarding method, by which packets reach the real server.
            type: str
            choices: [masquerade, direct, tunnel, local, bypass]
            default: masquerade
          upper_threshold:
            description:
              - The number of connections at which the real server gets no new ones, up to 2147483647.
              - V(0) means no limit.
            type: int
            default: 0
          lower_threshold:
            description:
              - The number of connections below which a real server that reached its upper threshold gets new ones
                again, up to O(services[].real_servers[].upper_threshold).
              - V(0) means three quarters of O(services[].real_servers[].upper_threshold).
            type: int
            default: 0
          tunnel_type:
            description: The encapsulation, with O(services[].real_servers[].forwarding_method=tunnel).
            type: str
            choices: [ipip, gue, gre]
            default: ipip
          tunnel_port:
            description: The destination port, with O(services[].real_servers[].tunnel_type=gue).
            type: int
            default: 0
          tunnel_checksum:
            description:
              - The checksum of the encapsulation, with V(gue) and V(gre). V(remote) is remote checksum offload, which
                only V(gue) has.
            type: str
            choices: [none, checksum, remote]
            default: none
          state:
            description:
              - Whether the real server must exist. V(absent) has an effect only with
                O(services[].purge_real_servers=false).
            type: str
            choices: [present, absent]
            default: present
      purge_real_servers:
        description: Whether to remove real servers that O(services[].real_servers) does not name.
        type: bool
        default: true
      state:
        description: Whether the virtual server must exist.
        type: str
        choices: [present, absent]
        default: present
seealso:
  - module: kubenode.ipvs.ipvs_services_info
  - module: kubenode.ipvs.virtual_addresses
"""

EXAMPLES = r"""
- name: Balance a web service over two real servers
  kubenode.ipvs.ipvs_services:
    services:
      - protocol: tcp
        address: 192.0.2.80
        port: 80
        scheduler: wrr
        real_servers:
          - {address: 198.51.100.11, port: 8080, weight: 2}
          - {address: 198.51.100.12, port: 8080}

- name: Stop new connections to one real server, leave the others as they are
  kubenode.ipvs.ipvs_services:
    services:
      - protocol: tcp
        address: 192.0.2.80
        port: 80
        scheduler: wrr
        purge_real_servers: false
        real_servers:
          - {address: 198.51.100.12, port: 8080, weight: 0}

- name: Leave the weights of existing real servers to a health checker
  kubenode.ipvs.ipvs_services:
    keep_weights: true
    services:
      - protocol: tcp
        address: 192.0.2.80
        port: 80
        scheduler: wlc
        real_servers:
          - {address: 198.51.100.11, port: 8080, weight: 100}
          - {address: 198.51.100.13, port: 8080, weight: 100}

- name: Have exactly these virtual servers of the owner edge
  kubenode.ipvs.ipvs_services:
    owner: edge
    purge: owned
    services:
      - protocol: udp
        address: 2001:db8::53
        port: 53
        scheduler: sh
        scheduler_flags: [sh-port]
        persistence_timeout: 300
        netmask: 64
        real_servers:
          - address: 2001:db8:1::53
      - fwmark: 7
        real_servers:
          - address: 198.51.100.21
            forwarding_method: tunnel
            tunnel_type: gue
            tunnel_port: 6080

- name: Replace a real server, and drain the old one for at most ten minutes
  kubenode.ipvs.ipvs_services:
    drain: true
    drain_timeout: 600
    services:
      - protocol: tcp
        address: 192.0.2.80
        port: 80
        scheduler: wlc
        real_servers:
          - {address: 198.51.100.11, port: 8080}
          - {address: 198.51.100.14, port: 8080}

- name: Forget idle connections after an hour, and synchronise connections with another balancer
  kubenode.ipvs.ipvs_services:
    timeouts: {tcp: 3600, udp: 30}
    sync_daemons:
      - {role: master, interface: eth0, sync_id: 7}

- name: Remove a virtual server
  kubenode.ipvs.ipvs_services:
    services:
      - {protocol: tcp, address: 192.0.2.80, port: 80, state: absent}
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
      description: The kind of the item, V(virtual_server), V(real_server), V(ipvs_timeout) or V(sync_daemon).
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
    - kind: real_server
      verb: change
      key: {server: {protocol: tcp, address: 192.0.2.80, port: 80, family: 4}, address: 198.51.100.11, port: 8080}
      before:
        {weight: 1, forward: masquerade, upper_threshold: 0, lower_threshold: 0, tunnel_type: ipip, tunnel_port: 0,
        tunnel_flags: 0}
      after:
        {weight: 2, forward: masquerade, upper_threshold: 0, lower_threshold: 0, tunnel_type: ipip, tunnel_port: 0,
        tunnel_flags: 0}
lines:
  description: The same plan, one line for each step.
  returned: success
  type: list
  elements: str
  sample: ['~ real server 198.51.100.11:8080 of tcp 192.0.2.80:80: weight 1 masquerade -> weight 2 masquerade']
adopted:
  description: Unowned items that were in the desired state, and belong to the owner now (only with O(adopt) or
    O(purge=all)).
  returned: success
  type: list
  elements: str
  sample: ['virtual server tcp 192.0.2.80:80']
drained:
  description: The real servers that were drained and removed. Check mode cannot predict this value.
  returned: if O(drain) removed real servers, but not in check mode
  type: list
  elements: dict
  contains:
    real_server:
      description: The real server.
      type: str
    seconds:
      description: The seconds until its active connections had ended, or until the timeout.
      type: float
    active_connections:
      description: The number of active connections at its removal, V(0) if all had ended in time.
      type: int
  sample:
    - real_server: 198.51.100.12:8080 of tcp 192.0.2.80:80
      seconds: 12.5
      active_connections: 0
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
from ansible_collections.kubenode.ipvs.plugins.module_utils._tasks.ipvs_services import Task


def main() -> None:
    run(Task)


if __name__ == "__main__":
    main()
