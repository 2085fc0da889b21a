# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Nodes of the cluster: lab nodes with containerd and a kubelet, and the agent by the project's own playbook."""

from __future__ import annotations

import io
import json
import os
import shutil
import subprocess
import tarfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

from lab import access, naming
from lab.paths import ROOT

from . import node_files, node_packages, pod_network
from .control_plane import token
from .errors import E2eError
from .settings import WORK

if TYPE_CHECKING:
    from collections.abc import Callable

    from lab.progress import Progress
    from lab.state import Lab, Node

    from .api import Object
    from .control_plane import ControlPlane
    from .images import Archive
    from .settings import Settings

RBAC = ROOT / "roles/agent/files/rbac.yaml"
ACCOUNT = "kubenode-agent"
_TIMEOUT = 1800.0  # of one step on a node
_READY = 600.0  # seconds until all nodes are ready
# Downloads from the lab's bridge: ssh would take a user-mode node several times as long.
_FETCH = """\
import shutil, sys, urllib.request
with urllib.request.urlopen(sys.argv[1]) as answer, open(sys.argv[2], "wb") as file:
    shutil.copyfileobj(answer, file, 1 << 20)
"""


class Nodes:
    """Nodes of a lab that become nodes of a cluster."""

    def __init__(self, settings: Settings, lab: Lab, control_plane: ControlPlane, progress: Progress) -> None:
        self._settings = settings
        self._lab = lab
        self._control_plane = control_plane
        self._progress = progress

    def install(self, archives: list[Archive], kubelet: Path) -> None:
        """Install the container runtime and the kubelet on all nodes, and import the images."""
        served = node_packages.provide(self._lab)
        for path in (kubelet, *(archive.path for archive in archives)):
            shutil.copyfile(path, served / path.name)
        self._on_all(lambda node: self._install(node, archives, kubelet.name))

    def deploy_agent(self) -> None:
        """Deploy the agent by the playbook ``bootstrap``, with a token of its service account.

        Raises:
            E2eError: the playbook failed.
        """
        self._control_plane.kubectl("apply", "--filename", str(RBAC))
        bearer = self._control_plane.kubectl("create", "token", ACCOUNT, "-n", "kube-system", "--duration=24h").strip()
        inventory, variables = WORK / "inventory.yml", WORK / "variables.json"
        inventory.write_text(access.as_yaml(access.inventory(self._lab)))
        values = {
            "agent_kubeconfig": self._control_plane.kubeconfig(bearer),
            "agent_proxy_config": {"clusterCIDR": self._settings.pod_networks, "ipvs": {"scheduler": "rr"}},
        }
        variables.write_text(json.dumps(values))
        command = ["ansible-playbook", "--inventory", str(inventory), "kubenode.ipvs.bootstrap"]
        command += ["--extra-vars", f"@{variables}"]
        environment = {**os.environ, "ANSIBLE_CONFIG": str(ROOT / "ansible.cfg")}
        done = subprocess.run(command, cwd=ROOT, env=environment, stdin=subprocess.DEVNULL, check=False)
        if done.returncode:
            raise E2eError(f"the playbook bootstrap ended with status {done.returncode}; what failed is above")

    def join(self) -> None:
        """Start the kubelets, and wait until all nodes are ready.

        Raises:
            E2eError: a node is not ready in time.
        """
        self._on_all(self._start)
        end = time.monotonic() + _READY
        missing = self._settings.names
        while missing:
            self._control_plane.check()
            listed = self._control_plane.items("/api/v1/nodes")
            ready = {item["metadata"]["name"] for item in listed if _is_ready(item)}
            missing = [name for name in self._settings.names if name not in ready]
            if missing and time.monotonic() > end:
                logs = "\n".join(self.log(name)[-1500:] for name in missing)
                raise E2eError(f"not ready after {_READY:.0f} s: {', '.join(missing)}\n{logs}")
            time.sleep(1 if missing else 0)

    def log(self, name: str) -> str:
        """Return the journal of a node's kubelet, containerd and agent."""
        units = (node_files.UNIT, "containerd", "kubenode-agent")
        command = f"journalctl --no-pager -o short-iso {' '.join(f'-u {unit}' for unit in units)}"
        return self.run(self._lab.node(name), command)

    def run(self, node: Node, script: str, data: bytes = b"") -> str:
        """Run a shell command on a node with ``data`` as its input; return its output.

        Raises:
            E2eError: it failed.
        """
        command = ["ssh", "-F", str(self._lab.directory / "ssh_config"), node.name, script]
        try:
            done = subprocess.run(command, input=data, capture_output=True, timeout=_TIMEOUT, check=False)
        except subprocess.TimeoutExpired as error:
            raise E2eError(f"{node.name}: not done after {_TIMEOUT:.0f} s: {script[:200]}") from error
        if done.returncode:
            output = (done.stderr + done.stdout).decode(errors="replace").strip()[-1500:]
            raise E2eError(f"{node.name}: status {done.returncode} of {script[:200]}: {output}")
        return done.stdout.decode(errors="replace")

    def _install(self, node: Node, archives: list[Archive], kubelet: str) -> None:
        sandbox = next(name for archive in archives for name in archive.names if "/pause:" in name)
        kubeconfig = self._control_plane.kubeconfig(token(node.name))
        contents = node_files.files(self._settings, node, self._control_plane.authority, kubeconfig, sandbox)
        self.run(node, "tar -xf - -C /", _tar(contents))
        address = f"http://{naming.bridge_addresses().ipv4}:{naming.REPOSITORY_PORT}/{node_packages.DIRECTORY}"
        packages = " ".join(node_packages.PACKAGES)
        lines = ["set -e", "export DEBIAN_FRONTEND=noninteractive"]
        lines += ["apt-get -q update", f"apt-get -q -y install {packages}", "systemctl daemon-reload"]
        lines += [f"{node_files.DIRECTORY}/prepare", "systemctl restart containerd"]
        lines += [
            f"python3 -c '{_FETCH}' {address}/{kubelet} {node_files.KUBELET}",
            f"chmod 755 {node_files.KUBELET}",
        ]
        for archive in archives:
            own, *others = archive.names
            lines.append(f"python3 -c '{_FETCH}' {address}/{archive.path.name} /var/tmp/image.tar")
            lines.append("ctr -n k8s.io images import /var/tmp/image.tar && rm /var/tmp/image.tar")
            lacks = f"{archive.path.name} has no image {own}"
            lines.append(f"ctr -n k8s.io images ls -q | grep -qxF {own} || {{ echo {lacks} >&2; exit 1; }}")
            lines += [f"ctr -n k8s.io images tag {own} {name}" for name in others]
        self.run(node, "sh -s", "\n".join([*lines, ""]).encode())
        self._progress(f"{node.name}: container runtime, kubelet and images installed")

    def _start(self, node: Node) -> None:
        routes = pod_network.routes(self._settings, self._lab, but=node.index)
        lines = [*(f"ip {line}" for line in routes), f"systemctl start {node_files.UNIT}"]
        self.run(node, " && ".join(lines))

    def _on_all(self, step: Callable[[Node], None]) -> None:
        with ThreadPoolExecutor(len(self._lab.nodes)) as pool:
            list(pool.map(step, self._lab.nodes))


def _is_ready(node: Object) -> bool:
    conditions = node["status"].get("conditions", [])
    return any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)


def _tar(contents: dict[str, tuple[int, str]]) -> bytes:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w", format=tarfile.USTAR_FORMAT) as archive:
        for name, (mode, text) in contents.items():
            entry = tarfile.TarInfo(name)
            content = text.encode()
            entry.mode, entry.size = mode, len(content)
            archive.addfile(entry, io.BytesIO(content))
    return packed.getvalue()
