# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Access to nodes: keys, ssh's configuration, Ansible's inventory."""

from __future__ import annotations

import contextlib
import json
import shlex
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .command import run
from .errors import LabError
from .kernel_kinds import kernel_kind

if TYPE_CHECKING:
    from .state import Lab

_PROXY = Path(__file__).resolve().parent / "proxy.py"


def make_keys(lab: Lab) -> dict[str, str]:
    """Make the lab's keys and ssh configuration; return the keys' texts for ``seed.files``.

    One key pair is the user's, the other is the host key of all nodes. Both are removed with the lab.
    """
    texts = {}
    for name in ("id", "host"):
        path = lab.directory / name
        run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", f"lab {lab.name}", "-f", str(path)])
        texts[name], texts[f"{name}.pub"] = path.read_text(), path.with_suffix(".pub").read_text()
    (lab.directory / "known_hosts").write_text(f"* {texts['host.pub']}")
    (lab.directory / "ssh_config").write_text(ssh_config(lab))
    lab.control_directory.mkdir(mode=0o700, exist_ok=True)
    return {"authorized": texts["id.pub"], "host": texts["host"], "host.pub": texts["host.pub"]}


def ssh_config(lab: Lab) -> str:
    """Return the ssh configuration that reaches the nodes, by name or address."""
    proxy = shlex.join([sys.executable, "-IS", str(_PROXY), lab.namespace])
    lines = []
    for node in lab.nodes:
        patience = kernel_kind(node.kernel).patience
        lines += [
            f"Host {node.name} {node.addresses.ipv4}",
            f"  HostName {node.addresses.ipv4}",
            f"  ConnectTimeout {patience}",
            # A shared connection to a node that is gone ends.
            f"  ServerAliveInterval {patience // 4}",
            "  ServerAliveCountMax 4",
        ]
    lines += [
        "Host *",
        "  User root",
        f"  IdentityFile {_quoted(lab.directory / 'id')}",
        "  IdentitiesOnly yes",
        f"  UserKnownHostsFile {_quoted(lab.directory / 'known_hosts')}",
        "  GlobalKnownHostsFile /dev/null",
        "  StrictHostKeyChecking yes",
        "  BatchMode yes",
        "  LogLevel ERROR",
        # The proxy opens the connection inside the namespace, passes it to ssh and ends.
        f"  ProxyCommand {proxy.replace('%', '%%')} %h %p",
        "  ProxyUseFdpass yes",
        "  ControlMaster auto",
        "  ControlPersist 10m",
        f"  ControlPath {_quoted(lab.control_directory, '/%h')}",
    ]
    return "\n".join(lines) + "\n"


def _quoted(path: Path, end: str = "") -> str:
    return f'"{str(path).replace("%", "%%")}{end}"'


def close_connections(lab: Lab) -> None:
    """End the shared ssh connections."""
    for path in lab.control_directory.glob("*") if lab.control_directory.is_dir() else ():
        with contextlib.suppress(LabError):  # its process is gone already
            run(["ssh", "-F", "none", "-o", f"ControlPath={_quoted(path)}", "-O", "exit", "lab"], timeout=10)
    shutil.rmtree(lab.control_directory, ignore_errors=True)


def inventory(lab: Lab) -> dict[str, Any]:
    """Return the lab as an Ansible inventory: all nodes in the group ``nodes``."""
    ssh_args = shlex.join(
        ["-F", str(lab.directory / "ssh_config"), "-o", "ControlMaster=auto", "-o", "ControlPersist=10m"]
        # Repeated from ssh_config: Ansible reads ControlPath here to close the connection before it reboots a node.
        + ["-o", f"ControlPath={_quoted(lab.control_directory, '/%h')}"]
    )
    hosts = {
        node.name: {
            "ansible_host": node.addresses.ipv4,
            "lab_ipv4": node.addresses.ipv4,
            "lab_ipv6": node.addresses.ipv6,
            "lab_release": node.release,
            "lab_kernel": node.kernel,
            "ansible_ssh_timeout": kernel_kind(node.kernel).patience + 10,
        }
        for node in lab.nodes
    }
    clients = {
        client: {"namespace": namespace, "ipv4": lab.hosts[client].ipv4, "ipv6": lab.hosts[client].ipv6}
        for client, namespace in zip(lab.clients, lab.client_namespaces, strict=True)
    }
    variables = {
        "ansible_connection": "ssh",
        "ansible_user": "root",
        "ansible_ssh_private_key_file": str(lab.directory / "id"),
        "ansible_ssh_args": ssh_args,
        "ansible_pipelining": True,
        "ansible_python_interpreter": "/usr/bin/python3",
        "lab_name": lab.name,
        "lab_namespace": lab.namespace,
        "lab_clients": clients,
    }
    return {"all": {"children": {"nodes": {"hosts": hosts, "vars": variables}}}}


def as_yaml(value: dict[str, Any], indent: int = 0) -> str:
    """Write nested dictionaries as YAML; strings are quoted as in JSON, which YAML understands.

    Characters beyond U+FFFF are not supported: JSON writes each as two.
    """
    text = ""
    for key, inner in value.items():
        if isinstance(inner, dict) and inner:
            text += f"{' ' * indent}{key}:\n{as_yaml(inner, indent + 2)}"
        else:
            text += f"{' ' * indent}{key}: {json.dumps(inner)}\n"
    return text
