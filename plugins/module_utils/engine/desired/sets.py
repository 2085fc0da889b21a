# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""kube-proxy's seventeen IP sets: names, types, comments, sizes."""

from __future__ import annotations

from typing import NamedTuple

from ..model.ipset import IPSet

LOOP_BACK = "KUBE-LOOP-BACK"
CLUSTER_IP = "KUBE-CLUSTER-IP"
EXTERNAL_IP = "KUBE-EXTERNAL-IP"
EXTERNAL_IP_LOCAL = "KUBE-EXTERNAL-IP-LOCAL"
LOAD_BALANCER = "KUBE-LOAD-BALANCER"
LOAD_BALANCER_LOCAL = "KUBE-LOAD-BALANCER-LOCAL"
LOAD_BALANCER_FW = "KUBE-LOAD-BALANCER-FW"
LOAD_BALANCER_SOURCE_CIDR = "KUBE-LOAD-BALANCER-SOURCE-CIDR"
LOAD_BALANCER_SOURCE_IP = "KUBE-LOAD-BALANCER-SOURCE-IP"
HEALTH_CHECK_NODE_PORT = "KUBE-HEALTH-CHECK-NODE-PORT"
IPVS_IPS = "KUBE-IPVS-IPS"
# Not in kube-proxy: only with the setting noEndpoints: reject.
NO_ENDPOINTS = "KUBE-NO-ENDPOINTS"
# Per protocol: all node ports, and additionally those of services with externalTrafficPolicy Local.
NODE_PORT = {"tcp": "KUBE-NODE-PORT-TCP", "udp": "KUBE-NODE-PORT-UDP", "sctp": "KUBE-NODE-PORT-SCTP-HASH"}
NODE_PORT_LOCAL = {
    "tcp": "KUBE-NODE-PORT-LOCAL-TCP",
    "udp": "KUBE-NODE-PORT-LOCAL-UDP",
    "sctp": "KUBE-NODE-PORT-LOCAL-SCTP-HASH",
}


class SetKind(NamedTuple):
    """A set's type, and the comment that the rules on it carry."""

    type: str
    comment: str


SETS: dict[str, SetKind] = {
    LOOP_BACK: SetKind("hash:ip,port,ip", "Kubernetes endpoints dst ip:port, source ip for solving hairpin purpose"),
    CLUSTER_IP: SetKind("hash:ip,port", "Kubernetes service cluster ip + port for masquerade purpose"),
    EXTERNAL_IP: SetKind("hash:ip,port", "Kubernetes service external ip + port for masquerade and filter purpose"),
    EXTERNAL_IP_LOCAL: SetKind(
        "hash:ip,port", "Kubernetes service external ip + port with externalTrafficPolicy=local"
    ),
    LOAD_BALANCER: SetKind("hash:ip,port", "Kubernetes service lb portal"),
    LOAD_BALANCER_FW: SetKind(
        "hash:ip,port", "Kubernetes service load balancer ip + port for load balancer with sourceRange"
    ),
    LOAD_BALANCER_LOCAL: SetKind(
        "hash:ip,port", "Kubernetes service load balancer ip + port with externalTrafficPolicy=local"
    ),
    LOAD_BALANCER_SOURCE_IP: SetKind(
        "hash:ip,port,ip", "Kubernetes service load balancer ip + port + source IP for packet filter purpose"
    ),
    LOAD_BALANCER_SOURCE_CIDR: SetKind(
        "hash:ip,port,net", "Kubernetes service load balancer ip + port + source cidr for packet filter purpose"
    ),
    NODE_PORT["tcp"]: SetKind("bitmap:port", "Kubernetes nodeport TCP port for masquerade purpose"),
    NODE_PORT_LOCAL["tcp"]: SetKind("bitmap:port", "Kubernetes nodeport TCP port with externalTrafficPolicy=local"),
    NODE_PORT["udp"]: SetKind("bitmap:port", "Kubernetes nodeport UDP port for masquerade purpose"),
    NODE_PORT_LOCAL["udp"]: SetKind("bitmap:port", "Kubernetes nodeport UDP port with externalTrafficPolicy=local"),
    NODE_PORT["sctp"]: SetKind(
        "hash:ip,port", "Kubernetes nodeport SCTP port for masquerade purpose with type 'hash ip:port'"
    ),
    NODE_PORT_LOCAL["sctp"]: SetKind(
        "hash:ip,port", "Kubernetes nodeport SCTP port with externalTrafficPolicy=local with type 'hash ip:port'"
    ),
    HEALTH_CHECK_NODE_PORT: SetKind("bitmap:port", "Kubernetes health check node port"),
    IPVS_IPS: SetKind("hash:ip", "Addresses on the ipvs interface"),
}
_NO_ENDPOINTS = SetKind("hash:ip,port", "Kubernetes services without endpoints")
_LONGEST_NAME = 31  # IPSET_MAXNAMELEN without the terminator
_MAXELEM = 65536


def set_name(family: int, name: str) -> str:
    """Return a set's name in one family, cut where kube-proxy cuts it."""
    return name if family == 4 else f"KUBE-6-{name[5:]}"[:_LONGEST_NAME]


def wanted_sets(no_endpoints: bool) -> list[tuple[int, str, SetKind]]:
    """Return all sets of both families as (family, IPv4 name, kind).

    With ``no_endpoints``, they include the set of Services without endpoints.
    """
    kinds = {**SETS, NO_ENDPOINTS: _NO_ENDPOINTS} if no_endpoints else SETS
    return [(family, name, kind) for family in (4, 6) for name, kind in kinds.items()]


def header(family: int, kind: SetKind, members: int = 0) -> IPSet:
    """Return a set's header.

    kube-proxy's sets hold 65,536 members and no more (kubernetes/kubernetes#129389). The agent's double before they are
    four fifths full: a set is re-created and swapped while it has room for new members. The size follows from the
    number of members alone, so it is the same after a restart.
    """
    if kind.type == "bitmap:port":
        return IPSet(kind.type, (("range", "0-65535"),))
    maxelem = _MAXELEM
    while members * 5 >= maxelem * 4:
        maxelem *= 2
    return IPSet(
        kind.type,
        (("family", "inet" if family == 4 else "inet6"), ("hashsize", "1024"), ("maxelem", str(maxelem))),
    )
