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
  - Makes sure that the kernel's IPVS table holds the given virtual servers with the given real servers, in one task for many
    of them.
  - Speaks to the kernel over netlink. Needs neither C(ipvsadm) nor any Python library on the node.
  - Weights, thresholds, schedulers and flags are changed in place, so that established connections go on. What is removed
    comes last, and with O(drain) when its connections have ended.
  - If the kernel refuses something, everything that this task did before is undone and the message names the object.
author:
  - The kubenode.ipvs maintainers (@kubenode)
requirements:
  - The kernel module C(ip_vs) and the modules of the schedulers used (see M(kubenode.ipvs.kernel_modules)).
extends_documentation_fragment:
  - kubenode.ipvs._attributes
  - kubenode.ipvs._attributes.actiongroup_converging
  - kubenode.ipvs._ownership
  - kubenode.ipvs._ownership.purge
options:
  services:
    description:
      - The virtual servers.
      - A virtual server is known by its O(services[].protocol), O(services[].address) and O(services[].port), or by its
        O(services[].fwmark) and O(services[].family). Naming one twice is an error.
    type: list
    elements: dict
    default: []
    suboptions:
      protocol:
        description:
          - The protocol.
          - Required unless O(services[].fwmark) is given.
        type: str
        choices: [tcp, udp, sctp]
      address:
        description:
          - The IPv4 or IPv6 address.
          - Required unless O(services[].fwmark) is given.
        type: str
      port:
        description:
          - The port.
          - V(0) means all ports. The kernel allows that only for a persistent virtual server.
          - Required unless O(services[].fwmark) is given.
        type: int
      fwmark:
        description:
          - The firewall mark of packets that belong to this virtual server, from 1 to 4294967295, instead of protocol,
            address and port.
        type: int
      family:
        description:
          - The address family of a virtual server with O(services[].fwmark).
        type: str
        choices: [ipv4, ipv6]
        default: ipv4
      scheduler:
        description:
          - The name of the scheduler, for example V(rr), V(wrr), V(lc), V(wlc), V(sh), V(dh), V(mh), V(lblc), V(lblcr),
            V(sed), V(nq), V(fo), V(ovf) or V(twos).
          - Which names exist is the kernel's business. A name that it does not know makes the task fail.
        type: str
        default: rr
      scheduler_flags:
        description:
          - Flags for the scheduler.
          - V(sh-fallback) and V(mh-fallback) choose another real server when the chosen one is unavailable, V(sh-port) and
            V(mh-port) hash the source port, too. They are other names of V(flag-1) and V(flag-2), for the schedulers V(sh) and V(mh).
        type: list
        elements: str
        choices: [flag-1, flag-2, flag-3, sh-fallback, sh-port, mh-fallback, mh-port]
        default: []
      persistence_timeout:
        description:
          - For how many seconds, at most 4294967, connections from one client go to the same real server.
          - V(0) turns persistence off.
        type: int
        default: 0
      netmask:
        description:
          - Which clients count as one for persistence, as a prefix length (V(24), V(64)) or, for IPv4, as a netmask
            (V(255.255.255.0)).
          - Without it every address is a client of its own.
        type: str
      persistence_engine:
        description:
          - The persistence engine, for example V(sip).
        type: str
        default: ''
      one_packet:
        description:
          - Whether to choose a real server for every datagram (UDP only).
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
              - The address. With O(services[].real_servers[].forwarding_method=tunnel) it may be of the other family.
            type: str
            required: true
          port:
            description:
              - The port. By default the virtual server's port, and with O(services[].fwmark) V(0), the port that the packet has.
              - Only O(services[].real_servers[].forwarding_method=masquerade) changes the port of packets.
            type: int
          weight:
            description:
              - The weight. V(0) means no new connections.
            type: int
            default: 1
          forwarding_method:
            description:
              - How packets reach the real server.
            type: str
            choices: [masquerade, direct, tunnel, local, bypass]
            default: masquerade
          upper_threshold:
            description:
              - The number of connections at which the real server gets no new ones. V(0) means no limit.
            type: int
            default: 0
          lower_threshold:
            description:
              - The number of connections below which a real server that reached its upper threshold gets new ones again.
              - V(0) means three quarters of O(services[].real_servers[].upper_threshold).
            type: int
            default: 0
          tunnel_type:
            description:
              - The encapsulation, with O(services[].real_servers[].forwarding_method=tunnel).
            type: str
            choices: [ipip, gue, gre]
            default: ipip
          tunnel_port:
            description:
              - The destination port, with O(services[].real_servers[].tunnel_type=gue).
            type: int
            default: 0
          tunnel_checksum:
            description:
              - How the encapsulation is checksummed, with V(gue) and V(gre). V(remote) is remote checksum offload, which
                only V(gue) has.
            type: str
            choices: [none, checksum, remote]
            default: none
          state:
            description:
              - Whether the real server shall be there. V(absent) makes a difference only with
                O(services[].purge_real_servers=false).
            type: str
            choices: [present, absent]
            default: present
      purge_real_servers:
        description:
          - Whether to remove real servers that O(services[].real_servers) does not name.
        type: bool
        default: true
      state:
        description:
          - Whether the virtual server shall be there.
        type: str
        choices: [present, absent]
        default: present
  timeouts:
    description:
      - For how many seconds IPVS remembers connections on which nothing moves. They are the whole node's (the network namespace's).
      - What is omitted or V(0) stays as it is.
      - Nobody owns timeouts. The last task that sets them has its way, and O(purge) does not touch them. The agent sets those that its
        configuration names.
    type: dict
    suboptions:
      tcp:
        description:
          - Established TCP connections, at most 2147483. The kernel's default is 900.
        type: int
      tcp_fin:
        description:
          - TCP connections that are being closed, at most 2147483. The kernel's default is 120.
        type: int
      udp:
        description:
          - UDP, at most 2147483. The kernel's default is 300.
        type: int
  sync_daemons:
    description:
      - The daemons that send connections to other nodes, or take them from there, so that connections live on when a virtual address
        moves. There is at most one of each role.
      - If omitted, daemons are left as they are, whatever O(purge) says. With a list, an empty one too, O(purge) stops those that it
        does not name.
      - The kernel cannot change a daemon. One that shall have other settings is stopped and started.
      - Daemons exclude virtual servers with real servers of the other family.
    type: list
    elements: dict
    suboptions:
      role:
        description:
          - V(master) sends, V(backup) takes.
        type: str
        required: true
        choices: [master, backup]
      interface:
        description:
          - The interface for the datagrams, which has to be up and do multicast.
          - Required unless O(sync_daemons[].state=absent).
        type: str
      sync_id:
        description:
          - Which daemons belong together, from 0 to 255. A V(backup) with V(0) takes from all.
        type: int
        default: 0
      maxlen:
        description:
          - The longest datagram's data in bytes, for V(backup) at least 1024.
          - With V(0) a running daemon keeps its own, and for a new one the kernel chooses, for V(master) what fits into 1500 bytes, for
            V(backup) what fits into the interface's MTU.
        type: int
        default: 0
      group:
        description:
          - The multicast group, an IPv4 or IPv6 address.
        type: str
        default: 224.0.0.81
      port:
        description:
          - The UDP port.
        type: int
        default: 8848
      ttl:
        description:
          - How many routers the datagrams may pass, plus one.
        type: int
        default: 1
      state:
        description:
          - Whether the daemon shall run.
        type: str
        choices: [present, absent]
        default: present
  keep_weights:
    description:
      - Whether real servers that are there already keep their weights, whatever O(services[].real_servers[].weight) says. It is
        then only the weight of new ones.
      - This is for nodes on which somebody else sets weights, for example a health checker that gives V(0) to a real server that
        does not answer.
    type: bool
    default: false
  drain:
    description:
      - Whether real servers that go, by themselves or with their virtual server, get the weight V(0) first and are removed when
        their active connections have ended.
      - Active connections are established ones of TCP and SCTP. UDP has none, so that its real servers go after the first look.
      - The task waits for all of them together, looks every half second, and removes them when none of them has active
        connections or O(drain_timeout) is over. Meanwhile others (the agent, other tasks) may change what is theirs.
      - If the kernel refuses a later step, real servers that were removed are there again and all have their former weights. If the
        task itself is ended while it waits, they keep the weight V(0), and the next run goes on from there.
      - A client of a virtual server with O(services[].persistence_timeout) comes back to a real server with the weight V(0) until that
        time is over, unless the kernel parameter C(net.ipv4.vs.expire_quiescent_template) is V(1).
    type: bool
    default: false
  drain_timeout:
    description:
      - How many seconds O(drain) waits at most, from 1 to 86400.
      - When they are over, the real servers are removed with the connections that they still have. RV(drained) and a warning say
        which, and how many connections they were.
    type: int
    default: 60
seealso:
  - module: kubenode.ipvs.virtual_addresses
"""

EXAMPLES = r"""
- name: Balance a web service over two back ends
  kubenode.ipvs.ipvs_services:
    services:
      - protocol: tcp
        address: 192.0.2.80
        port: 80
        scheduler: wrr
        real_servers:
          - {address: 198.51.100.11, port: 8080, weight: 2}
          - {address: 198.51.100.12, port: 8080}

- name: Stop new connections to one back end, leave the others alone
  kubenode.ipvs.ipvs_services:
    services:
      - protocol: tcp
        address: 192.0.2.80
        port: 80
        scheduler: wrr
        purge_real_servers: false
        real_servers:
          - {address: 198.51.100.12, port: 8080, weight: 0}

- name: Leave the weights of those that are there to the health checker
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

- name: Have exactly these virtual servers of mine, and no other of mine
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

- name: Replace a back end; the old one goes when its last connection has ended, or after ten minutes
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

- name: Forget idle connections after an hour, and tell the other balancer of the connections
  kubenode.ipvs.ipvs_services:
    timeouts: {tcp: 3600, udp: 30}
    sync_daemons:
      - {role: master, interface: eth0, sync_id: 7}

- name: Stop the daemon
  kubenode.ipvs.ipvs_services:
    sync_daemons:
      - {role: master, state: absent}

- name: Remove a virtual server
  kubenode.ipvs.ipvs_services:
    services:
      - {protocol: tcp, address: 192.0.2.80, port: 80, state: absent}
"""

RETURN = r"""
plan:
  description: What was done, or in check mode would be done, in this order.
  returned: success
  type: list
  elements: dict
  contains:
    kind:
      description: What kind of thing changes, V(virtual_server), V(real_server), V(ipvs_timeout) or V(sync_daemon).
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
    - kind: real_server
      verb: change
      key: {server: {protocol: tcp, address: 192.0.2.80, port: 80, family: 4}, address: 198.51.100.11, port: 8080}
      before:
        weight: 1
        forward: masquerade
        upper_threshold: 0
        lower_threshold: 0
        tunnel_type: ipip
        tunnel_port: 0
        tunnel_flags: 0
      after:
        weight: 2
        forward: masquerade
        upper_threshold: 0
        lower_threshold: 0
        tunnel_type: ipip
        tunnel_port: 0
        tunnel_flags: 0
lines:
  description: The same plan, one line for each step.
  returned: success
  type: list
  elements: str
  sample: ['~ real server 198.51.100.11:8080 of tcp 192.0.2.80:80: weight 1 masquerade -> weight 2 masquerade']
adopted:
  description: What was there as wanted, in nobody's name, and belongs to the owner now (only with O(adopt) or O(purge=all)).
  returned: success
  type: list
  elements: str
  sample: ['virtual server tcp 192.0.2.80:80']
drained:
  description:
    - The real servers that were drained and removed.
    - RV(plan) is the same whether the time was enough or not. Check mode knows it, but not this.
  returned: if O(drain) removed real servers, but not in check mode
  type: list
  elements: dict
  contains:
    real_server:
      description: Which real server.
      type: str
    seconds:
      description: After how many seconds its active connections had ended, or the time was over.
      type: float
    active_connections:
      description: How many active connections it still had when it was removed, V(0) if they had ended in time.
      type: int
  sample:
    - real_server: 198.51.100.12:8080 of tcp 192.0.2.80:80
      seconds: 12.5
      active_connections: 0
failed_steps:
  description: The steps that the kernel refused, as in RV(plan), each with a C(message).
  returned: if the kernel refused something
  type: list
  elements: dict
undone:
  description: The lines of the steps that were taken back.
  returned: if the kernel refused something
  type: list
  elements: str
"""

from ansible_collections.kubenode.ipvs.plugins.module_utils._argspec import OWNER, PURGE, STATE
from ansible_collections.kubenode.ipvs.plugins.module_utils._converge import run
from ansible_collections.kubenode.ipvs.plugins.module_utils._ipvs_services import prepare

REAL_SERVER = {
    "address": {"type": "str", "required": True},
    "port": {"type": "int"},
    "weight": {"type": "int", "default": 1},
    "forwarding_method": {
        "type": "str",
        "choices": ["masquerade", "direct", "tunnel", "local", "bypass"],
        "default": "masquerade",
    },
    "upper_threshold": {"type": "int", "default": 0},
    "lower_threshold": {"type": "int", "default": 0},
    "tunnel_type": {"type": "str", "choices": ["ipip", "gue", "gre"], "default": "ipip"},
    "tunnel_port": {"type": "int", "default": 0},
    "tunnel_checksum": {"type": "str", "choices": ["none", "checksum", "remote"], "default": "none"},
    **STATE,
}
SERVICE = {
    "protocol": {"type": "str", "choices": ["tcp", "udp", "sctp"]},
    "address": {"type": "str"},
    "port": {"type": "int"},
    "fwmark": {"type": "int"},
    "family": {"type": "str", "choices": ["ipv4", "ipv6"], "default": "ipv4"},
    "scheduler": {"type": "str", "default": "rr"},
    "scheduler_flags": {
        "type": "list",
        "elements": "str",
        "choices": ["flag-1", "flag-2", "flag-3", "sh-fallback", "sh-port", "mh-fallback", "mh-port"],
        "default": [],
    },
    "persistence_timeout": {"type": "int", "default": 0},
    "netmask": {"type": "str"},
    "persistence_engine": {"type": "str", "default": ""},
    "one_packet": {"type": "bool", "default": False},
    "real_servers": {"type": "list", "elements": "dict", "options": REAL_SERVER},
    "purge_real_servers": {"type": "bool", "default": True},
    **STATE,
}
SYNC_DAEMON = {
    "role": {"type": "str", "required": True, "choices": ["master", "backup"]},
    "interface": {"type": "str"},
    "sync_id": {"type": "int", "default": 0},
    "maxlen": {"type": "int", "default": 0},
    "group": {"type": "str", "default": "224.0.0.81"},
    "port": {"type": "int", "default": 8848},
    "ttl": {"type": "int", "default": 1},
    **STATE,
}
SPEC = {
    "services": {"type": "list", "elements": "dict", "default": [], "options": SERVICE},
    "timeouts": {"type": "dict", "options": {name: {"type": "int"} for name in ("tcp", "tcp_fin", "udp")}},
    "sync_daemons": {"type": "list", "elements": "dict", "options": SYNC_DAEMON},
    "keep_weights": {"type": "bool", "default": False},
    "drain": {"type": "bool", "default": False},
    "drain_timeout": {"type": "int", "default": 60},
    **OWNER,
    **PURGE,
}


def main():
    run(SPEC, prepare)


if __name__ == "__main__":
    main()
