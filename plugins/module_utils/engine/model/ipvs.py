# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""IPVS: virtual servers and real servers, as in ``include/uapi/linux/ip_vs.h``."""

from __future__ import annotations

from typing import NamedTuple

PERSISTENT = 0x1
HASHED = 0x2  # set by the kernel, never part of a value
ONE_PACKET = 0x4
SCHED1, SCHED2, SCHED3 = 0x8, 0x10, 0x20
# Their meanings, as ipvsadm's -b spells them.
SCHEDULER_FLAGS = {
    "flag-1": SCHED1,
    "flag-2": SCHED2,
    "flag-3": SCHED3,
    "sh-fallback": SCHED1,
    "sh-port": SCHED2,
    "mh-fallback": SCHED1,
    "mh-port": SCHED2,
}

MASQUERADE = "masquerade"
LOCAL = "local"
TUNNEL = "tunnel"
DIRECT = "direct"
BYPASS = "bypass"
FORWARDING_METHODS = (MASQUERADE, LOCAL, TUNNEL, DIRECT, BYPASS)  # index = IP_VS_CONN_F_FWD_MASK value

TUNNEL_TYPES = ("ipip", "gue", "gre")  # index = IP_VS_CONN_F_TUNNEL_TYPE_*
TUNNEL_NOCSUM = 0x0
TUNNEL_CSUM = 0x1
TUNNEL_REMCSUM = 0x2
TUNNEL_CHECKSUMS = {
    "none": TUNNEL_NOCSUM,
    "checksum": TUNNEL_CSUM,
    "remote": TUNNEL_REMCSUM,
}  # as ipvs_services names them

# Longest timeout of a connection in seconds: the kernel counts in ticks, up to 1000 a second, in an int.
LONGEST_TIMEOUT = 0x7FFFFFFF // 1000

# Largest threshold that all kernels take: Linux >= 6.1.192 refuses larger ones, older kernels take 32 bits.
LARGEST_THRESHOLD = 0x7FFFFFFF

PROTOCOLS = {"tcp": 6, "udp": 17, "sctp": 132}
SCHEDULERS = ("rr", "wrr", "lc", "wlc", "fo", "ovf", "lblc", "lblcr", "dh", "sh", "sed", "nq", "mh", "twos")


class VirtualServerKey(NamedTuple):
    """The kernel's lookup key of a virtual server.

    A firewall-mark service has the protocol ``fwmark``, an empty address and the mark (32 bits) as its port.
    """

    protocol: str
    address: str
    port: int
    family: int

    def __str__(self) -> str:
        """Return for example ``tcp 10.96.0.10:80`` or ``fwmark 7 (IPv6)``."""
        if self.protocol == "fwmark":
            return f"fwmark {self.port}" + (" (IPv6)" if self.family == 6 else "")
        return f"{self.protocol} {endpoint(self.address, self.port)}"


class VirtualServer(NamedTuple):
    """Settings of a virtual server; ``timeout`` in seconds, ``netmask`` as a prefix length (for persistence)."""

    scheduler: str = "rr"
    flags: int = 0
    timeout: int = 0
    netmask: int = 32
    pe_name: str = ""


class RealServerKey(NamedTuple):
    """A real server within its virtual server; its address may be of the other family (tunnels)."""

    server: VirtualServerKey
    address: str
    port: int

    def __str__(self) -> str:
        """Return for example ``10.244.1.5:8080 of tcp 10.96.0.10:80``."""
        return f"{endpoint(self.address, self.port)} of {self.server}"


class RealServer(NamedTuple):
    """Settings of a real server.

    Thresholds are in connections (0: none). ``tunnel_*`` is for the forwarding method tunnel.
    """

    weight: int = 1
    forward: str = MASQUERADE
    upper_threshold: int = 0
    lower_threshold: int = 0
    tunnel_type: str = "ipip"
    tunnel_port: int = 0
    tunnel_flags: int = 0


class SyncDaemon(NamedTuple):
    """Sync daemon that sends (master) or takes (backup) connections by multicast on an interface.

    The key of a daemon is its role, master or backup.

    ``sync_id`` is 0 to 255; a backup with 0 takes all. ``max_length`` is that of a datagram in bytes. 0 and "" are the
    kernel's defaults: group 224.0.0.81, port 8848, ttl 1, and the length for an MTU of 1500 (master) or of the
    interface (backup).
    """

    interface: str
    sync_id: int = 0
    max_length: int = 0
    group: str = ""
    port: int = 0
    ttl: int = 0


def endpoint(address: str, port: int) -> str:
    """Return ``address:port``, with brackets around an IPv6 address."""
    return f"[{address}]:{port}" if ":" in address else f"{address}:{port}"
