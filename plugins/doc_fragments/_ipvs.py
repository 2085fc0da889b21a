# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This doc fragment is PRIVATE to the collection. It can change at any time, do not use it from outside.

from __future__ import annotations


class ModuleDocFragment:
    # IPVS as a whole.
    SETTINGS = r"""
options:
  timeouts:
    description:
      - For how many seconds IPVS remembers connections on which nothing moves. They are the whole node's (the network
        namespace's).
      - What is omitted or V(0) stays as it is.
      - Nobody owns timeouts. The last task that sets them has its way, and O(purge) does not touch them. The agent sets
        those that its configuration names.
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
      - The daemons that send connections to other nodes, or take them from there, so that connections live on when a
        virtual address moves. There is at most one of each role.
      - If omitted, daemons are left as they are, whatever O(purge) says. With a list, an empty one too, O(purge) stops
        those that it does not name.
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
          - With V(0) a running daemon keeps its own, and for a new one the kernel chooses, for V(master) what fits into
            1500 bytes, for V(backup) what fits into the interface's MTU.
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
"""

    # How real servers change and go.
    DRAIN = r"""
options:
  keep_weights:
    description:
      - Whether real servers that are there already keep their weights, whatever O(services[].real_servers[].weight)
        says. It is then only the weight of new ones.
      - This is for nodes on which another program sets weights, for example a health checker that gives V(0) to a real
        server that does not answer.
    type: bool
    default: false
  drain:
    description:
      - Whether real servers that go, by themselves or with their virtual server, get the weight V(0) first and are
        removed when their active connections have ended.
      - Active connections are established ones of TCP and SCTP. UDP has none, so that its real servers go after the
        first look.
      - The task waits for all of them together, looks every half second, and removes them when none of them has active
        connections or O(drain_timeout) is over. Meanwhile others (the agent, other tasks) may change what is theirs.
      - If the kernel refuses a later step, real servers that were removed are there again and all have their former
        weights. If the task itself is ended while it waits, they keep the weight V(0), and the next run goes on from
        there.
      - A client of a virtual server with O(services[].persistence_timeout) comes back to a real server with the weight
        V(0) until that time is over, unless the kernel parameter C(net.ipv4.vs.expire_quiescent_template) is V(1).
    type: bool
    default: false
  drain_timeout:
    description:
      - How many seconds O(drain) waits at most, from 1 to 86400.
      - When they are over, the real servers are removed with the connections that they still have. RV(drained) and a
        warning say which, and how many connections they were.
    type: int
    default: 60
"""
