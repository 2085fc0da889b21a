# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Lab node of the benchmarks."""

from __future__ import annotations

import subprocess
from pathlib import Path

from lab import access, kernel_kinds, lifecycle
from lab.paths import ROOT
from lab.progress import Progress

NAME = "bench"
ON_NODE = Path(__file__).resolve().parent / "onnode"
BUNDLE = ROOT / "roles/agent/files/kubenode-agent.tar.gz"
DIRECTORY = "/root/bench"
PACKAGES = "ipset ipvsadm iptables conntrack nftables"
MODULES = "ip_vs ip_vs_rr ip_set nf_conntrack br_netfilter dummy"


class Node:
    """Node that is booted for the benchmarks and removed afterwards; ``kernel`` is a kind of the lab."""

    name = "node1"
    release = "bookworm"
    memory = "3G"  # for 44,125 Services and the kernel's own tables

    def __init__(self, kernel: str = kernel_kinds.DEFAULT) -> None:
        progress = Progress()
        self.kernel = kernel_kinds.kernel_kind(kernel)
        lifecycle.down(NAME, progress)
        self.lab = lifecycle.up(NAME, [f"{self.name}:{self.release}"], [], kernel, self.memory, progress)
        self.inventory = self.lab.directory / "inventory.yml"
        self.inventory.write_text(access.as_yaml(access.inventory(self.lab)))
        self.run(f"apt-get -qq update && apt-get -qq -y install {PACKAGES} && modprobe -a {MODULES}")
        # networkd looks at every address that another program adds or removes: at 10,000 Services, for minutes. Its
        # addresses stay.
        self.run("systemctl stop systemd-networkd.socket systemd-networkd.service")
        self._copy()

    def _copy(self) -> None:
        """Copy the engine, the agent and the scripts of ``onnode`` to the node, byte-compiled."""
        sources = [
            (ROOT / "plugins/module_utils", ["engine"]),
            (ROOT / "tests/bench", ["objects.py"]),
            (ON_NODE.parent, ["onnode"]),
        ]
        arguments = [part for directory, names in sources for part in ("-C", str(directory), *names)]
        archive = subprocess.run(
            ["tar", "-c", "--exclude=__pycache__", *arguments], capture_output=True, check=True
        ).stdout
        self.run(f"mkdir -p {DIRECTORY}/agent {DIRECTORY}/work && tar -x -C {DIRECTORY}", archive)
        self.run(f"tar -xz -C {DIRECTORY}/agent && python3 -m compileall -q {DIRECTORY}", BUNDLE.read_bytes())

    def run(self, command: str, data: bytes | str = b"", timeout: float = 600) -> str:
        """Run a shell command on the node and return its output.

        Raises:
            RuntimeError: the command failed; with its output.
        """
        done = subprocess.run(
            ["ssh", "-F", str(self.lab.directory / "ssh_config"), self.name, command],
            input=data.encode() if isinstance(data, str) else data,
            capture_output=True,
            timeout=timeout,
            check=False,
        )
        if done.returncode:
            raise RuntimeError(
                f"`{command}` on {self.name}: status"
                f" {done.returncode}:\n{(done.stderr or done.stdout).decode().strip()}"
            )
        return done.stdout.decode()

    def python(self, script: str, *arguments: str, data: bytes | str = b"", timeout: float = 600) -> str:
        """Run a script of ``onnode`` on the node and return its output."""
        command = f"cd {DIRECTORY} && PYTHONPATH=. python3 onnode/{script} {' '.join(arguments)}"
        return self.run(command, data, timeout)

    def down(self) -> None:
        """Remove the node."""
        lifecycle.down(NAME, Progress())
