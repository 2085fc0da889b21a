# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Record of a lab in its directory.

The record is written before the first object is made, so that every object is recorded.
"""

from __future__ import annotations

import dataclasses
import json
import os
from pathlib import Path
from typing import NamedTuple

from . import naming, netns
from .errors import UsageError
from .paths import ROOT, RUNS
from .process import Recorded

# ssh first makes a control socket under a temporary name, 17 characters longer. Its address has at most 107 bytes.
_MAX_CONTROL_DIRECTORY = 107 - 17 - len("/255.255.255.255")


@dataclasses.dataclass(frozen=True)
class Node:
    """A node of a lab."""

    name: str
    index: int  # decides addresses, tap and hardware address
    release: str  # Debian's code name
    kernel: str  # kind of its kernel
    image: str  # directory of its image
    lab: str

    @property
    def directory(self) -> Path:
        """Directory of its disk, console log and process record."""
        return RUNS / self.lab / "nodes" / self.name

    @property
    def console(self) -> Path:
        """Log of its console: output of the kernel and systemd."""
        return self.directory / "console.log"

    @property
    def addresses(self) -> naming.Addresses:
        """Addresses on the lab's network."""
        return naming.node_addresses(self.index)

    @property
    def process(self) -> Recorded | None:
        """Process of its kernel, if it was started."""
        return Recorded.load(self.directory / "process")

    @property
    def running(self) -> bool:
        """Return true if the node's kernel runs."""
        process = self.process
        return process is not None and process.running


class Lab(NamedTuple):
    """A lab: nodes, clients and the network between them."""

    name: str
    nodes: tuple[Node, ...]
    clients: tuple[str, ...]
    memory: str  # of each node, as the kernel takes it: 512M
    ready: bool = False  # everything of the lab was made

    @property
    def directory(self) -> Path:
        """Directory of the lab's files."""
        return RUNS / self.name

    @property
    def namespace(self) -> str:
        """Network namespace of the bridge and of all the lab's processes."""
        return naming.lab_namespace(ROOT, self.name)

    @property
    def client_namespaces(self) -> list[str]:
        """Network namespaces of the clients, in their order."""
        return [naming.client_namespace(ROOT, self.name, client) for client in self.clients]

    @property
    def hosts(self) -> dict[str, naming.Addresses]:
        """Nodes and clients with their addresses."""
        nodes = {node.name: node.addresses for node in self.nodes}
        return nodes | {client: naming.client_addresses(index) for index, client in enumerate(self.clients)}

    @property
    def control_directory(self) -> Path:
        """Directory of ssh's shared connections: the lab's, unless its path is too long for a socket."""
        inside = self.directory / "ssh"
        return inside if len(os.fsencode(inside)) <= _MAX_CONTROL_DIRECTORY else Path("/run") / f"{self.namespace}.ssh"

    @property
    def whole(self) -> bool:
        """Return true if every part of the lab exists and runs."""
        there = set(netns.names())
        return (
            self.ready
            and {self.namespace, *self.client_namespaces} <= there
            and all(node.running for node in self.nodes)
        )

    def node(self, name: str) -> Node:
        """Return the node of this name.

        Raises:
            UsageError: the lab has no such node.
        """
        for node in self.nodes:
            if node.name == name:
                return node
        raise UsageError(f"lab {self.name}: no node {name!r}, it has {', '.join(node.name for node in self.nodes)}")

    def client_namespace(self, name: str) -> str:
        """Return the namespace of a client, or of the bridge if ``name`` is the bridge's.

        Raises:
            UsageError: the lab has no such client.
        """
        if name == naming.BRIDGE:
            return self.namespace
        if name not in self.clients:
            raise UsageError(f"lab {self.name}: no client {name!r}, it has {', '.join((*self.clients, naming.BRIDGE))}")
        return naming.client_namespace(ROOT, self.name, name)

    def save(self) -> None:
        """Write the record atomically."""
        self.directory.mkdir(parents=True, exist_ok=True)
        fields = self._asdict() | {"nodes": [dataclasses.asdict(node) for node in self.nodes]}
        temporary = self.directory / "lab.json.new"
        temporary.write_text(json.dumps(fields, indent=2) + "\n")
        temporary.replace(self.directory / "lab.json")


def load(name: str) -> Lab | None:
    """Return the recorded lab, None without a readable record."""
    try:
        fields = json.loads((RUNS / name / "lab.json").read_text())
        nodes = tuple(Node(**node) for node in fields.pop("nodes"))
        return Lab(nodes=nodes, clients=tuple(fields.pop("clients")), **fields)
    except (FileNotFoundError, ValueError, TypeError, KeyError):
        return None  # the writer was interrupted, or was another version of the lab


def existing(name: str) -> Lab:
    """Return a lab that is up.

    Raises:
        UsageError: the lab is not up.
    """
    lab = load(naming.check_name("lab", name))
    if lab is None or not lab.ready:
        raise UsageError(f"lab {name}: not up ({', '.join(all_names()) or 'no lab'} in this clone)")
    return lab


def all_names() -> list[str]:
    """Return the names of all labs of this clone that still have a directory or a namespace."""
    directories = [entry.name for entry in RUNS.iterdir() if entry.is_dir()] if RUNS.is_dir() else []
    namespaces = [naming.lab_of_namespace(ROOT, name) for name in netns.names()]
    return sorted({*directories, *(name for name in namespaces if name)})


def namespaces_of(name: str) -> list[str]:
    """Return all namespaces of a lab on this machine, recorded or not; those of clients first."""
    return sorted(
        (namespace for namespace in netns.names() if naming.lab_of_namespace(ROOT, namespace) == name), reverse=True
    )
