# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Network namespaces of the demo's lab that run commands: those of the client, the nodes and the pods."""

from __future__ import annotations

import os
import shlex
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from lab import access, kernel_kinds, lifecycle
from lab.progress import Progress

from .screen import fail

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from .cluster import Pod

NAME = "demo"
NODES = ("node1", "node2", "node3")
CLIENT = "client"
MEMORY = "512M"
KERNEL = os.environ.get("KERNEL") or kernel_kinds.DEFAULT  # kind of the nodes' kernels, as in `lab up --kernel`
ON_NODE = Path(__file__).resolve().parent / "onnode"
DIRECTORY = "/opt/demo"  # on the nodes

T = TypeVar("T")
R = TypeVar("R")


class Namespace(NamedTuple):
    """Network namespace that runs commands: the client's, a node's own, or with ``pod`` a pod's on a node."""

    name: str
    node: str = ""
    pod: str = ""


def client() -> Namespace:
    """Return the client's namespace."""
    return Namespace(CLIENT)


def node(name: str) -> Namespace:
    """Return a node's namespace."""
    return Namespace(name, name)


def pod(of: Pod) -> Namespace:
    """Return a pod's namespace."""
    return Namespace(of.name, of.node, of.name)


class Lab:
    """Lab of the demo. An earlier one is removed first."""

    def __init__(self) -> None:
        progress = Progress()
        lifecycle.down(NAME, progress)  # left by an earlier demo
        self.lab = lifecycle.up(NAME, NODES, [CLIENT], KERNEL, MEMORY, progress)
        self.inventory = self.lab.directory / "inventory.yml"
        self.inventory.write_text(access.as_yaml(access.inventory(self.lab)))

    def address(self, host: str) -> str:
        """Return the IPv4 address of a node or of the client."""
        return self.lab.hosts[host].ipv4

    def command(self, namespace: Namespace, command: str) -> list[str]:
        """Return the command, for this machine, that runs a shell command in a namespace."""
        if not namespace.node:
            return ["ip", "netns", "exec", self.lab.client_namespace(namespace.name), "sh", "-c", command]
        inside = f"ip netns exec {namespace.pod} sh -c {shlex.quote(command)}" if namespace.pod else command
        return ["ssh", "-F", str(self.lab.directory / "ssh_config"), namespace.node, inside]

    def run(self, namespace: Namespace, command: str, text: str = "", timeout: float = 120) -> str:
        """Run a shell command in a namespace, with ``text`` as its input, and return its output.

        Raises:
            DemoError: the command failed or took too long; with its output.
        """
        try:
            done = subprocess.run(
                self.command(namespace, command),
                input=text,
                capture_output=True,
                text=True,
                timeout=timeout,
                check=False,
            )
        except subprocess.TimeoutExpired:
            fail(f"{namespace.name}: `{command}` not done after {timeout:.0f} s")
        if done.returncode:
            fail(
                f"{namespace.name}: `{command}` ended with status"
                f" {done.returncode}:\n{(done.stderr or done.stdout).strip()}"
            )
        return done.stdout


def at_once(function: Callable[[T], R], arguments: Iterable[T]) -> list[R]:
    """Call a function with each argument, all at the same time; return the results in the arguments' order."""
    arguments = list(arguments)
    with ThreadPoolExecutor(len(arguments)) as pool:
        return list(pool.map(function, arguments))
