# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This doc fragment is PRIVATE to the collection. It can change at any time, do not use it from outside.

from __future__ import annotations


class ModuleDocFragment:
    # Settings of the whole IPVS table.
    SETTINGS = r"""
options:
  timeouts:
    description:
      - The seconds for which IPVS remembers idle connections. They apply to the whole network namespace of the node.
      - A timeout that is omitted or V(0) stays as it is.
      - Timeouts have no owner. The last task that sets them wins, and O(purge) does not touch them. The agent sets the
        timeouts that its configuration names.
    type: dict
    suboptions:
      tcp:
        description:
          - Established TCP connections, at most 2147483. The kernel's default is 900.
        type: int
      tcp_fin:
        description:
          - TCP connections after a FIN, at most 2147483. The kernel's default is 120.
        type: int
      udp:
        description:
          - UDP, at most 2147483. The kernel's default is 300.
        type: int
  sync_daemons:
    description:
      - The daemons that send connections to other nodes or receive them, so that connections survive when a virtual
        address moves. A node has at most one daemon of each role.
      - If omitted, daemons stay as they are, for any O(purge). With a list, even an empty one, O(purge) stops daemons
        that the list does not name.
      - The kernel cannot change a daemon. To change its settings, the task stops and starts it.
      - A node cannot have both daemons and virtual servers with real servers of the other address family.
    type: list
    elements: dict
    suboptions:
      role:
        description:
          - The role of the daemon. V(master) sends connections, V(backup) receives them.
        type: str
        required: true
        choices: [master, backup]
      interface:
        description:
          - The interface for the datagrams. It must be up and support multicast.
          - Required unless O(sync_daemons[].state=absent).
        type: str
      sync_id:
        description:
          - The number of the group of daemons that work together, from 0 to 255. A V(backup) with V(0) receives from
            all groups.
        type: int
        default: 0
      maxlen:
        description:
          - The maximum length of a datagram's data in bytes. For V(backup) it is at least 1024.
          - With V(0) a running daemon keeps its length, and the kernel chooses the length of a new daemon. The kernel
            chooses what fits into 1500 bytes for V(master), and into the interface's MTU for V(backup).
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
          - The TTL of the datagrams, the number of routers that they may pass plus one.
        type: int
        default: 1
      state:
        description:
          - Whether the daemon must run.
        type: str
        choices: [present, absent]
        default: present
"""

    # Change and removal of real servers.
    DRAIN = r"""
options:
  keep_weights:
    description:
      - Whether existing real servers keep their weights. O(services[].real_servers[].weight) is then only the weight of
        new real servers.
      - Use it on nodes where another program sets weights, for example a health checker that gives V(0) to a real
        server that does not answer.
    type: bool
    default: false
  drain:
    description:
      - Whether to drain real servers before their removal. They get the weight V(0) first, and are removed when their
        active connections have ended. Real servers of a removed virtual server are drained, too.
      - Active connections are established connections of TCP and SCTP. UDP has none, so its real servers are removed
        after the first check.
      - The task waits for all of them together and checks every half second. It removes them when none of them has
        active connections, or after O(drain_timeout). Meanwhile the agent and other tasks may change their own items.
      - If the kernel refuses a later step, the task restores removed real servers and all weights. If the task is
        killed while it waits, the weight V(0) stays, and the next run continues from there.
      - A client of a virtual server with O(services[].persistence_timeout) returns to a real server with the weight
        V(0) until that timeout, unless the kernel parameter C(net.ipv4.vs.expire_quiescent_template) is V(1).
    type: bool
    default: false
  drain_timeout:
    description:
      - The maximum time of O(drain) in seconds, from 1 to 86400.
      - After that, the task removes the real servers with their remaining connections. RV(drained) and a warning name
        them with the number of their connections.
    type: int
    default: 60
"""
