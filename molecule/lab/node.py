# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Node of a lab: a kernel as an ordinary process, on a disk of its own."""

from __future__ import annotations

import os
import socket
import subprocess
import time
from pathlib import Path
from typing import TYPE_CHECKING

from . import netns
from .command import last_lines
from .errors import LabError
from .kernel_kinds import kernel_kind
from .process import Recorded

if TYPE_CHECKING:
    from .state import Node

_POLL = 0.2


def start(node: Node, namespace: str, memory: str, memory_directory: Path) -> None:
    """Start a node's kernel in the lab's namespace, without waiting for it."""
    kind = kernel_kind(node.kernel)
    kind.make_disk(Path(node.image), node.directory)
    with netns.inside(namespace), open(node.console, "ab") as console:
        child = subprocess.Popen(
            kind.command(node, memory, memory_directory),
            cwd=node.directory,
            env={
                "PATH": os.environ["PATH"],
                "HOME": str(node.directory),
                "TMPDIR": str(memory_directory),
                "LAB_NODE": str(node.index),
            },
            stdin=subprocess.DEVNULL,
            stdout=console,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    Recorded.of(child.pid).save(node.directory / "process")
    child.returncode = 0  # the kernel outlives this process: subprocess must not warn of it


def wait(node: Node, namespace: str, timeout: float) -> None:
    """Wait until the node's ssh server answers.

    Raises:
        LabError: the kernel ended, or ssh did not answer within ``timeout`` seconds; with the end of the console.
    """
    deadline = time.monotonic() + timeout
    with netns.inside(namespace):
        while not _answers(node.addresses.ipv4):
            if not node.running:
                raise LabError(f"node {node.name}: its kernel ended; {console_end(node)}")
            if time.monotonic() > deadline:
                raise LabError(f"node {node.name}: ssh does not answer after {timeout:.0f} s; {console_end(node)}")
            time.sleep(_POLL)


def _answers(address: str) -> bool:
    try:
        with socket.create_connection((address, 22), timeout=2) as connection:
            return connection.recv(4) == b"SSH-"
    except OSError:
        return False


def console_end(node: Node) -> str:
    """Return the last lines of a node's console, with a heading."""
    try:
        text = node.console.read_text(errors="replace")
    except FileNotFoundError:
        return "it was never started"
    return f"the end of its console:\n{last_lines(text, 25)}"
