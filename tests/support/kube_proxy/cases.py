# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Helpers shared by the cases of kube-proxy's own tests (proxier_test.go): short rules, addresses, Services."""

from __future__ import annotations

from typing import Any

from support.clusters.objects import endpoint, piece, port, service

from kubenode.engine.desired.settings import Config

LO, LBJ, CM, NPJ = "RETURN", "KUBE-LOAD-BALANCER LOAD-BALANCER", "KUBE-MARK-MASQ CLUSTER-IP", "KUBE-NODE-PORT"
CA, LA, MM = "ACCEPT CLUSTER-IP", "ACCEPT LOAD-BALANCER", "KUBE-MARK-MASQ"
EM, EA = "KUBE-MARK-MASQ EXTERNAL-IP", "ACCEPT EXTERNAL-IP"
HCA = "ACCEPT HEALTH-CHECK-NODE-PORT"
S_PLAIN = [LO, CM, NPJ, CA]
S_LB = [LO, LBJ, CM, NPJ, CA, LA]
S_ALL = [LO, LBJ, CM, EM, EA, EA, NPJ, CA, LA]
EVERYWHERE = Config(node_port_addresses=("0.0.0.0/0",))
DUAL = ("100.101.102.103", "2001:db8::1:1")


def node_port(protocol: str = "TCP", ip: str = "10.20.30.41", **more: Any) -> dict[str, Any]:
    return service(cluster_ips=[ip], ports=[port(80, "p80", protocol, 3001)], kind="NodePort", **more)


def ports(protocol: str) -> list[dict[str, Any]]:
    return [{"name": "p80", "protocol": protocol, "port": 80}]


V4 = piece(endpoints=[endpoint("10.180.0.1")])
V6 = piece(endpoints=[endpoint("1002:ab8::2:10")], family=6)
ONE = ["10.180.0.1:80"]


def balancer(**more: Any) -> dict[str, Any]:
    return service(ports=[port(node_port=3001)], kind="LoadBalancer", **{"ingress": [{"ip": "1.2.3.4"}], **more})


def local_balancer(health_check: int) -> dict[str, Any]:
    return service(
        cluster_ips=["172.20.1.1"],
        ports=[port(80, "")],
        kind="LoadBalancer",
        externalTrafficPolicy="Local",
        healthCheckNodePort=health_check,
    )
