# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Agent in the container of the DaemonSet's pod, for tests that else run it as a process."""

from __future__ import annotations

import signal
import subprocess
from pathlib import Path

from ..containers import images, kustomize
from ..containers.containerd import Containerd, Pod
from .process import NODE, AgentProcess

_ROOT, _AGENT = f"{images.NAME}:root", f"{images.NAME}:0.1.0"


class AgentContainer(AgentProcess):
    """AgentProcess whose agent has the image, the rights and the user of deploy/daemonset.

    Its configuration and its manifests are in the test's directory, which the container shares.
    """

    def __init__(self, directory: Path, containerd: Containerd) -> None:
        super().__init__(directory)
        directory.chmod(0o755)  # the agent is not root
        self.run, self.state = Path("/run/kubenode"), Path("/var/lib/kubenode/agent")
        (daemonset,) = (item for item in kustomize.overlay("kubeadm") if item["kind"] == "DaemonSet")
        volumes = {name: directory / name for name in ("kube-proxy", "settings", "token")}
        for path in volumes.values():
            path.mkdir()
        self._pod = Pod(containerd, daemonset, volumes, NODE, shared=directory)

    def start(self, *words: str, wait: bool = True, environment: dict[str, str] | None = None) -> None:
        """Run the init container and start the agent's; wait until the node is converged."""
        assert environment is None
        self._pod.run(_ROOT, "prepare", "--config", str(self.config), container="prepare")
        options = ("--config", str(self.config), "--node", NODE, "--manifests", str(self.manifests))
        self._pod.start(_AGENT, self.log, "run", *options, *words)
        if wait:
            self.converged()

    def exited(self) -> bool:
        """Tell whether the agent has ended."""
        return not self._pod.runs()

    def kill(self, number: int) -> None:
        """Send a signal."""
        self._pod.kill(number)

    def stop(self, number: int = signal.SIGTERM) -> int:
        """End the agent and return its status."""
        self._pod.stop(number)
        return 0

    def close(self) -> None:
        """End the agent if it still runs."""
        if self._pod.name:
            self._pod.stop(signal.SIGKILL)

    def command(
        self, *words: str, expect: int | None = 0, environment: dict[str, str] | None = None
    ) -> subprocess.CompletedProcess[str]:
        """Run the command line to its end, in a container of its own."""
        assert environment is None
        return self._pod.run(_AGENT, *words, expect=expect)
