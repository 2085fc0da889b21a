# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The agent's process and a real kube-apiserver with its etcd: who it is, what it serves, what it says to the cluster.

Run by ``molecule/lab/uml-pytest tests/peers/test_kube_apiserver.py --kube-apiserver=PATH --etcd=PATH``, as are those
that go on from here.
"""

from __future__ import annotations

import json
import math
import socket
import time
from pathlib import Path

import pytest
from support.agent.process import NODE, AgentProcess, eventually
from support.agent.served import SLOW, address_port, problems, real_servers, serve, start, virtual_servers
from support.agent.watched_source import NODES, SERVICES
from support.clusters.cluster import Cluster, node, piece, service
from support.clusters.kube_apiserver import PROXY, ROLE, KubeApiServer

from kubenode.manifests.documents import ObjectKey

HEALTH_CHECK = 32100


@pytest.mark.parametrize("user", [ROLE, PROXY])
def test_agent_roles_are_sufficient(
    agent: AgentProcess, api: KubeApiServer, cluster: Cluster, users: dict[str, Path], user: str
) -> None:
    """For everything that the agent ever asks for; also before the Node is registered."""
    address = serve(cluster, cluster.run)
    asked, events = len(api.asked(user)), len(cluster.events("default", NODE))
    start(agent, users[user])
    agent.converged(SLOW)
    assert real_servers(address) == ["192.0.2.77:8080"]
    assert "hostnameOverride" in problems(agent)[NODES]
    cluster.create(node(NODE))
    eventually(lambda: not problems(agent), SLOW)
    with socket.create_server(("", HEALTH_CHECK)):
        spec = {
            **service("")["spec"],
            "type": "LoadBalancer",
            "externalTrafficPolicy": "Local",
            "healthCheckNodePort": HEALTH_CHECK,
        }
        cluster.create({**service(f"{cluster.run}-taken"), "spec": spec})
        reason = "FailedToStartServiceHealthcheck"
        eventually(lambda: [e["reason"] for e in cluster.events("default", f"{cluster.run}-taken")] == [reason], SLOW)
    started = [event["reason"] for event in cluster.events("default", NODE)]
    assert started == ["Starting"] * (events + 1)
    assert [request for request in api.asked(user)[asked:] if request.status >= 400] == []


def test_expired_certificate_is_reported(agent: AgentProcess, api: KubeApiServer) -> None:
    start(agent, api.kubeconfig("ended", api.certificate(PROXY, hours=-0.5)))
    eventually(lambda: "401" in (agent.ask("status") or {"waiting": ""})["waiting"], SLOW)
    waiting = agent.ask("status")["waiting"]
    assert (
        "the API answers 401 Unauthorized: Unauthorized (are token or certificate of the kubeconfig still valid?)"
        in waiting
    )


def test_rotated_token_is_used(agent: AgentProcess, api: KubeApiServer, cluster: Cluster) -> None:
    """The object that the token was bound to is deleted, so the API refuses the token."""
    secret = cluster.create(
        {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": cluster.run, "namespace": "kube-system"}}
    )
    file = agent.directory / "token"
    file.write_text(cluster.token("kube-system", "kubenode-agent", secret))
    first, second = (serve(cluster, name) for name in cluster.names(2))
    start(agent, api.kubeconfig("rotating", {"tokenFile": str(file)}, cluster.relay.port))
    agent.converged(SLOW)
    cluster.delete(ObjectKey("Secret", "kube-system", cluster.run))

    def refused() -> bool:
        """the API refuses the token, which it remembers for ten seconds"""
        cluster.relay.cut()
        time.sleep(3)
        return "answers 401 Unauthorized" in problems(agent).get(SERVICES, "")

    eventually(refused, SLOW)
    assert real_servers(first)
    cluster.anew()
    file.write_text(cluster.token("kube-system", "kubenode-agent"))
    eventually(lambda: SERVICES not in problems(agent), SLOW)
    cluster.anew()
    cluster.delete(ObjectKey("Service", "default", cluster.names(2)[1]))
    eventually(lambda: not real_servers(second), SLOW)
    log = agent.log.read_text()
    assert "answers 401 Unauthorized" in log
    assert file.read_text() not in log


def test_agent_serves_the_services_of_kube_proxy(agent: AgentProcess, cluster: Cluster, users: dict[str, Path]) -> None:
    """Other proxies' Services, slices of headless Services, and Services without a cluster IP are not served.

    Labels mark the first two.
    """
    mine, others, labelled, bare, alias = cluster.names(5)
    before = virtual_servers()
    addresses = {
        serve(cluster, mine),
        serve(cluster, others, {"service.kubernetes.io/service-proxy-name": "other"}),
        serve(cluster, labelled, {"service.kubernetes.io/headless": ""}),
    }
    ports = service("")["spec"]["ports"]
    cluster.create({**service(bare), "spec": {"clusterIP": "None", "ports": ports}})
    cluster.create(piece(bare))
    cluster.create({**service(alias), "spec": {"type": "ExternalName", "externalName": "example.org"}})
    start(agent, users[ROLE])
    agent.converged(SLOW)
    served = {address for address in addresses if real_servers(address)}
    assert len(served) == 1
    listed = {f"{address}:80" for address in addresses if address_port(address) in virtual_servers()}
    assert len(listed) == 2  # mine, and the one of which only the slice has a label that matters
    assert virtual_servers() - before == {*listed, "10.96.0.1:443"}
    cluster.label(ObjectKey("Service", "default", others), {})
    cluster.label(ObjectKey("EndpointSlice", "default", f"{others}"), {"kubernetes.io/service-name": others})
    eventually(lambda: sum(bool(real_servers(address)) for address in addresses) == 2, SLOW)


def test_changed_services_and_slices_are_followed(
    agent: AgentProcess, cluster: Cluster, users: dict[str, Path]
) -> None:
    """The type of a Service, who has a node port, and whose a slice is."""
    first, second = cluster.names(2)
    keys = [ObjectKey("Service", "default", name) for name in (first, second)]
    address = serve(cluster, first)
    start(agent, users[ROLE])
    agent.converged(SLOW)
    node_port = cluster.change(keys[0], type="NodePort")["ports"][0]["nodePort"]
    eventually(lambda: real_servers("192.0.2.1", node_port), SLOW)

    cluster.delete(keys[0])
    ports = [{**service("")["spec"]["ports"][0], "nodePort": node_port}]
    other = cluster.create({**service(second), "spec": {"type": "NodePort", "ports": ports}})["spec"]["clusterIP"]
    eventually(
        lambda: address_port(address) not in virtual_servers() and address_port(other) in virtual_servers(), SLOW
    )
    assert real_servers(other) == real_servers("192.0.2.1", node_port) == []
    cluster.label(ObjectKey("EndpointSlice", "default", first), {"kubernetes.io/service-name": second})
    eventually(lambda: real_servers(other) == real_servers("192.0.2.1", node_port) == ["192.0.2.77:8080"], SLOW)

    cluster.change(keys[1], type="ExternalName", externalName="example.org", clusterIP="", clusterIPs=None)
    eventually(lambda: virtual_servers().isdisjoint({address_port(other), address_port("192.0.2.1", node_port)}), SLOW)
    address = cluster.change(keys[1], type="ClusterIP", externalName="")["clusterIP"]
    eventually(lambda: real_servers(address) == ["192.0.2.77:8080"], SLOW)
    assert problems(agent).keys() == {NODES}


def test_thousands_of_services_are_served(
    agent: AgentProcess, api: KubeApiServer, cluster: Cluster, users: dict[str, Path], pytestconfig: pytest.Config
) -> None:
    count: int = pytestconfig.getoption("--services")
    for name in cluster.names(count):
        cluster.create(service(name))
    asked = len(api.asked(ROLE, SERVICES))
    start(agent, users[ROLE])
    agent.converged(5 * SLOW)
    lists = [request for request in api.asked(ROLE, SERVICES)[asked:] if "watch" not in request.query]
    assert [request.query["limit"] for request in lists] == ["500"] * math.ceil((count + 1) / 500), json.dumps(lists)
    assert len([request for request in lists if "continue" in request.query]) == len(lists) - 1
    assert len(virtual_servers()) == count + 1
