# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Paths of the third-party programs that these tests run.

The tests are not part of `make test`.
"""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from support.agent.process import AgentProcess, eventually
from support.clusters.cluster import Cluster
from support.clusters.kube_apiserver import PROXY, ROLE, KubeApiServer
from support.processes.namespace import fresh, sh

MANIFEST = Path(__file__).parents[2] / "roles/agent/files/rbac.yaml"
MODULES = ("ip_vs", "ip_vs_rr", "nf_conntrack", "ip_set", "xt_set", "dummy", "br_netfilter")


def pytest_addoption(parser: pytest.Parser) -> None:
    """Say which program, and how many random clusters."""
    parser.addoption(
        "--kube-proxy", metavar="PATH", help="a kube-proxy; not below /tmp or /run, which are the kernel's own"
    )
    parser.addoption("--kube-apiserver", metavar="PATH", help="a kube-apiserver; likewise")
    parser.addoption("--etcd", metavar="PATH", help="an etcd for it; likewise")
    parser.addoption("--kubectl", metavar="PATH", help="a kubectl; likewise")
    parser.addoption("--kubernetes", metavar="DIR", help="kubeadm and all that it needs, see test_kubeadm.py")
    parser.addoption(
        "--services", type=int, default=1200, metavar="N", help="how many Services are thousands (%(default)s)"
    )
    parser.addoption("--clusters", type=int, default=10, metavar="N", help="how many random clusters (%(default)s)")
    parser.addoption("--first", type=int, default=0, metavar="SEED", help="the seed of the first of them (%(default)s)")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "seed" in metafunc.fixturenames:
        first = metafunc.config.getoption("--first")
        metafunc.parametrize("seed", range(first, first + metafunc.config.getoption("--clusters")))


@pytest.fixture(scope="session")
def only_api(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[KubeApiServer]:
    """A kube-apiserver on a node of its own, which is the namespace of all tests; the role's manifest is applied.

    The parameter, if there is one, is the address at which it listens.
    """
    pytestconfig = request.config
    programs = [pytestconfig.getoption(name) for name in ("--etcd", "--kube-apiserver")]
    assert all(programs), "this test needs --kube-apiserver=PATH and --etcd=PATH"
    subprocess.run(["modprobe", "-a", *MODULES], check=True)
    fresh()
    sh("ip", "link", "set", "lo", "up")
    sh("ip", "link", "add", "eth0", "type", "dummy")
    sh("ip", "address", "add", "192.0.2.1/24", "dev", "eth0")
    sh("ip", "address", "add", "2001:db8::1/64", "dev", "eth0", "nodad")
    sh("ip", "link", "set", "eth0", "up")
    server = KubeApiServer(tmp_path_factory.mktemp("api"), *programs, getattr(request, "param", "127.0.0.1"))
    cluster = Cluster(server.admin)
    eventually(
        lambda: any(item["metadata"]["name"] == "kube-system" for item in cluster.get("/api/v1/namespaces")["items"]),
        60,
    )
    for item in yaml.safe_load(MANIFEST.read_text(encoding="utf-8"))["items"]:
        cluster.create(item)
    cluster.anew()
    cluster.relay.close()
    yield server
    server.close()


@pytest.fixture
def api(only_api: KubeApiServer) -> Iterator[KubeApiServer]:
    """The API server, which is well again after the test."""
    yield only_api
    only_api.go_on()
    only_api.up()


@pytest.fixture
def cluster(api: KubeApiServer) -> Iterator[Cluster]:
    """Objects in it that end with the test."""
    connected = Cluster(api.admin)
    yield connected
    api.go_on()
    api.up()
    connected.anew()
    connected.close()


@pytest.fixture
def users(api: KubeApiServer, cluster: Cluster) -> dict[str, Path]:
    """Kubeconfigs of those who may: of the role's manifest with a token, of kube-proxy's role with a certificate."""
    token = cluster.token("kube-system", "kubenode-agent")
    return {ROLE: api.kubeconfig("role", {"token": token}), PROXY: api.kubeconfig("proxy", api.certificate(PROXY))}


@pytest.fixture
def agent(api: KubeApiServer, tmp_path: Path) -> Iterator[AgentProcess]:
    """An agent that has not been started; what it makes of the node ends with the test."""
    process = AgentProcess(tmp_path)
    yield process
    process.close()
    process.command("cleanup", "--run-dir", str(process.run))
