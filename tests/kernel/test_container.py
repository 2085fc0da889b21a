# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The agent's image in a real containerd, with the rights, mounts and environment of deploy/daemonset.

The API server is the scripted fake; it knows the manifest's roles only, and serves TLS. The pod reads it as
kube-proxy's pod does: by the kubeconfig in kubeadm's ConfigMap, with a service account's token.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
import yaml
from kernel.modules import ModuleError, run
from support.agent.process import NODE, AgentProcess, eventually
from support.clusters import objects
from support.containers import images, kustomize
from support.containers.containerd import Containerd, Pod
from support.fakes.apiserver import FakeApiServer
from support.fakes.certificates import Authority
from support.kube_proxy import recorded
from support.kube_proxy.node import as_recorded, load_recording, network, serve
from support.processes.namespace import fresh, sh
from support.traffic.conversation import ANSWER, Servers, Target
from support.traffic.pods import PORT, Pods
from support.traffic.steady import Steady

from kubenode.daemon.outputs.control import ask

IMAGE = f"{images.NAME}:"
RUN, STATE = Path("/run/kubenode"), Path("/var/lib/kubenode/agent")
ACCOUNT = "system:serviceaccount:kube-system:kubenode-agent"
VIP = "10.96.0.10"
KUBECONFIG = """
apiVersion: v1
kind: Config
clusters:
- cluster: {{certificate-authority: /var/run/secrets/kubernetes.io/serviceaccount/ca.crt, server: "{server}"}}
  name: default
contexts:
- context: {{cluster: default, namespace: default, user: default}}
  name: default
current-context: default
users:
- name: default
  user: {{tokenFile: /var/run/secrets/kubernetes.io/serviceaccount/token}}
"""


class Deployment:
    """The DaemonSet on a node, with a cluster's objects. The test's own network namespace is the node's network."""

    def __init__(self, directory: Path, containerd: Containerd) -> None:
        for path in (RUN, STATE):
            shutil.rmtree(path, ignore_errors=True)
        self.log = directory / "log"
        authority = Authority()
        self.api = FakeApiServer(authority.server_context(directory))
        self.api.users = {"first-token": ACCOUNT}
        self.volumes = {name: directory / name for name in ("kube-proxy", "settings", "token")}
        for path in self.volumes.values():
            path.mkdir()
        (self.volumes["token"] / "ca.crt").write_bytes(authority.pem)
        self.use_token("first-token")
        (self.volumes["kube-proxy"] / "kubeconfig.conf").write_text(KUBECONFIG.format(server=self.api.url))
        self.manifest = {(item["kind"], item["metadata"]["name"]): item for item in kustomize.overlay("kubeadm")}
        for kind in ("ClusterRole", "ClusterRoleBinding"):
            self.api.put(self.manifest[kind, "kubenode-agent"])
        self.configure({})
        self.pod = Pod(containerd, self.manifest["DaemonSet", "kubenode-agent"], self.volumes, NODE)

    def close(self) -> None:
        if self.pod.name:
            self.pod.stop()
        self.api.close()

    def use_token(self, token: str) -> None:
        (self.volumes["token"] / "token").write_text(token)

    def configure(self, kube_proxy: dict[str, Any], **agent: Any) -> None:
        """Write the ConfigMaps: kube-proxy's as kubeadm does, and the manifest's with further settings."""
        document = {
            "apiVersion": "kubeproxy.config.k8s.io/v1alpha1",
            "kind": "KubeProxyConfiguration",
            "mode": "",
            "conntrack": {"maxPerCore": 0},  # a namespace cannot write nf_conntrack_max
            **kube_proxy,
            "clientConnection": {"kubeconfig": "/var/lib/kube-proxy/kubeconfig.conf"},
        }
        (self.volumes["kube-proxy"] / "config.conf").write_text(yaml.safe_dump(document))
        settings = yaml.safe_load(self.manifest["ConfigMap", "kubenode-agent"]["data"]["agent.yaml"])
        (self.volumes["settings"] / "agent.yaml").write_text(yaml.safe_dump({**settings, **agent}))

    def write(self, _name: str, listed: list[dict[str, Any]]) -> None:
        for item in listed:
            self.api.put(item)

    def prepare(self) -> str:
        return self.pod.run(f"{IMAGE}root", container="prepare").stdout

    def start(self, tag: str = "0.1.0") -> dict[str, Any]:
        """Start the agent's container; return its status when the node is converged."""
        self.pod.start(f"{IMAGE}{tag}", self.log)

        def status() -> Any:
            try:
                return ask(str(RUN / "agent.sock"), "status")
            except OSError:
                return None

        def converged() -> Any:
            """the agent in the container converges"""
            answer = status()
            return answer if answer and answer["converged"] else None

        try:
            return dict(eventually(converged, 20.0))
        except AssertionError:
            raise AssertionError(f"{status()}\n{self.log.read_text()}") from None


@pytest.fixture
def deployment(tmp_path: Path, containerd: Containerd, request: pytest.FixtureRequest) -> Iterator[Deployment]:
    if "servers" in request.fixturenames:
        request.getfixturevalue("servers")  # makes the node's network
    else:
        fresh()
        sh("ip", "link", "set", "lo", "up")
        attach()
    deployed = Deployment(tmp_path, containerd)
    yield deployed
    deployed.close()


def answer(target: Target) -> str:
    """Return the answer to a new connection."""
    with socket.create_connection((target.address, target.port), ANSWER) as client:
        client.send(b"who?")
        return client.recv(100).decode()


def attach() -> None:
    """Give this thread's network namespace the node's name, which is another's of an earlier test."""
    subprocess.run(["ip", "netns", "del", NODE], check=False, capture_output=True)
    sh("ip", "netns", "attach", NODE, str(os.getpid()))


@pytest.fixture
def servers() -> Iterator[Servers]:
    with network():
        started = Servers()
        yield started
        started.close()


def test_takeover_upgrade_kill_and_way_back_under_traffic(deployment: Deployment, servers: Servers) -> None:
    recording = load_recording(recorded.GOLDEN / "clustercidr-0.json", deployment)
    lines = [line for line in recording["state"]["ipvs"].splitlines() if line.startswith("-a -t 10.96.217.1:1167 ")]
    serve(servers, [line.split()[4] for line in lines])
    traffic = [Steady(name, Target("10.96.217.1", 1167)) for name in ("client1", NODE)]

    def goes_on() -> None:
        for client in traffic:
            client.more(20)
            assert (client.failures, client.retransmitted) == ([], 0)

    try:
        goes_on()
        assert "FAIL" not in deployment.prepare()
        assert deployment.start()["version"] == "0.1.0"
        goes_on()
        as_recorded(recording)

        deployment.pod.stop()  # a rolling update
        deployment.prepare()
        status = deployment.start("next")
        assert (status["version"], status["last_full_sync"]["steps"]) == (images.NEXT_VERSION, 0)
        goes_on()

        deployment.pod.stop(signal.SIGKILL)  # kubelet starts the container again, without init containers
        assert deployment.start("next")["last_full_sync"]["steps"] == 0
        goes_on()

        deployment.pod.stop()  # kube-proxy serves meanwhile, and leaves a Service that is deleted later
        sh("ipvsadm", "-A", "-t", "10.96.9.9:80", "-s", "rr")
        sh("ip", "addr", "add", "10.96.9.9/32", "dev", "kube-ipvs0")
        sh("ipset", "add", "KUBE-CLUSTER-IP", "10.96.9.9,tcp:80")
        deployment.prepare()
        deployment.start("next")
        eventually(lambda: "10.96.9.9" not in sh("ipvsadm", "-Sn") + sh("ip", "addr") + sh("ipset", "save"))
        goes_on()

        deployment.pod.stop()
        deployment.pod.run(f"{IMAGE}next", "cleanup", "--forget")
        goes_on()
        as_recorded(recording)
    finally:
        for client in traffic:
            client.close()


@pytest.mark.parametrize(
    ("backend", "listing", "mark"),
    [
        ("nftables", ("nft", "list", "tables"), "table ip kubenode"),
        # no chain of Kubernetes says which iptables: the image's own is that of nft
        ("iptables", ("iptables-nft-save", "-t", "nat"), "-A PREROUTING -m comment"),
    ],
    ids=["nftables", "iptables"],
)
def test_cold_start_serves_without_root(
    deployment: Deployment, backend: str, listing: tuple[str, ...], mark: str
) -> None:
    pods = Pods(2)
    try:
        ends = [objects.endpoint(address, NODE) for address in pods.addresses]
        ports = [objects.port(80, "p")]
        listed = [objects.service("web", [VIP], ports), objects.piece("web", ends, [objects.port(PORT, "p")])]
        deployment.write("", listed)
        deployment.configure({}, rules={"backend": backend})
        unused = {"nftables": "nft_numgen", "iptables": "xt_physdev"}[backend]
        sh("modprobe", "-r", unused)
        sh("sysctl", "-qw", "net.ipv4.vs.conntrack=0")
        deployment.prepare()
        assert unused in {line.split()[0] for line in Path("/proc/modules").read_text().splitlines()}

        deployment.start()
        assert {answer(Target(VIP, 80)) for _time in range(4)} == set(pods.addresses)
        assert mark in sh(*listing)
        assert sh("sysctl", "-n", "net.ipv4.vs.conntrack") == "1\n"
        process = Path(f"/proc/{deployment.pod.pid()}/status").read_text()
        fields = dict(line.split(":\t", 1) for line in process.splitlines())
        assert fields["Uid"].split()[0] == "65525"
        assert {fields[name] for name in ("CapPrm", "CapEff", "CapBnd", "CapAmb")} == {"0000000000003000"}
        assert (fields["NoNewPrivs"], fields["Seccomp"]) == ("1", "2")
        assert "converged: " in deployment.pod.execute("status")
        assert "FAIL" not in deployment.pod.execute("check")

        # kubelet renews the token, and the old one ends
        assert deployment.api.users is not None
        deployment.api.users["second-token"] = ACCOUNT
        deployment.use_token("second-token")
        del deployment.api.users["first-token"]
        deployment.api.cut()
        deployment.api.put(objects.piece("web", ends[:1], [objects.port(PORT, "p")]))
        eventually(lambda: f"-r {pods.addresses[1]}:{PORT} -m -w 0" in sh("ipvsadm", "-Sn"))
        assert "token" not in deployment.log.read_text()
    finally:
        pods.close()


class _KubeProxy(BaseHTTPRequestHandler):
    """Health server of kube-proxy."""

    def do_GET(self) -> None:
        self.send_response(200)
        self.end_headers()
        self.wfile.write(json.dumps({"lastUpdated": "2026-01-01 00:00:00 +0000 UTC", "currentTime": ""}).encode())

    def log_message(self, *_arguments: Any) -> None:
        """Print nothing."""


def test_container_waits_for_kube_proxy_and_for_the_unit(deployment: Deployment, tmp_path: Path) -> None:
    proxy = HTTPServer(("127.0.0.1", 10256), _KubeProxy)
    thread = Thread(target=proxy.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    unit = AgentProcess(tmp_path)
    unit.run = RUN
    started = deployment.pod.begin(f"{IMAGE}root", container="prepare")
    assert started.stdout is not None
    try:
        assert "(kube-proxy?) serves this node: it answers at 127.0.0.1 port 10256" in started.stdout.readline()
        started.terminate()  # the pod is deleted while it waits; ctr forwards the signal
        started.communicate(timeout=120)
        assert started.returncode == 143

        started = deployment.pod.begin(f"{IMAGE}root", container="prepare")
        assert started.stdout is not None
        started.stdout.readline()
        proxy.shutdown()
        proxy.server_close()
        rest = started.communicate(timeout=120)[0]
        assert started.returncode == 0, rest

        RUN.chmod(0o755)
        shutil.rmtree(RUN)
        unit.start()
        started = deployment.pod.begin(f"{IMAGE}root", container="prepare")
        assert started.stdout is not None
        assert "an agent on the node (kubenode-agent.service) serves this node" in started.stdout.readline()
        assert unit.ask("status")["converged"]
        unit.stop()
        rest = started.communicate(timeout=120)[0]
        assert started.returncode == 0, rest
    finally:
        unit.close()
        started.kill()


def test_unit_is_refused_beside_the_container(deployment: Deployment, tmp_path: Path) -> None:
    deployment.prepare()
    deployment.start()
    unit = AgentProcess(tmp_path)
    unit.run = RUN
    assert (
        "FAIL  an agent in a container (the DaemonSet) serves this node"
        in unit.command("check", *unit.options(), expect=1).stdout
    )
    with pytest.raises(ModuleError, match=r"an agent in a container .* serves this node"):
        run("agent_install", digest="0" * 64, directory=str(tmp_path / "opt"), command=str(tmp_path / "command"))
    assert ask(str(RUN / "agent.sock"), "status")["converged"]
