# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Benchmark of the playbook bootstrap on a converged node, against a playbook of the usual modules.

It also measures the controller's CPU time for each further node.
"""

from __future__ import annotations

import json
import shlex
from typing import TYPE_CHECKING, Any

import yaml
from lab import access
from lab.paths import ROOT

from . import prepare
from .report import Row
from .tasks import Run, Task, run_playbook

if TYPE_CHECKING:
    from pathlib import Path

    from .node import Node

ROUNDS = 3
FLEETS = (1, 10, 50)
PLAYBOOK = "kubenode.ipvs.bootstrap"
PLACE = "/opt/peer"
PACKAGES = ["ipset", "ipvsadm", "iptables", "conntrack", "kmod"]
# The role's sysctls on kernels newer than 5.8: without conn_reuse_mode.
SYSCTLS = {name: value for name, value in prepare.SYSCTLS.items() if name != "net.ipv4.vs.conn_reuse_mode"}
# A unit in place of the agent: the benchmark measures the tasks for a unit, not its program.
UNIT = "[Service]\nExecStart=/bin/sleep infinity\n[Install]\nWantedBy=multi-user.target\n"


def _peers() -> list[Task]:
    """Return tasks with the effects of bootstrap, in the usual form: one module for each subject, in loops."""
    defaults = yaml.safe_load((ROOT / "roles/prepare/defaults/main.yml").read_text())
    names = [
        name.split("|")[0] for name in defaults["prepare_kernel_modules"] + defaults["prepare_kernel_modules_legacy"]
    ]
    modprobe = {"name": "{{ item }}", "state": "present", "persistent": "present"}
    sysctl = {"name": "{{ item.key }}", "value": "{{ item.value }}", "sysctl_file": "/etc/sysctl.d/90-peer.conf"}
    bundle = str(ROOT / "roles/agent/files/kubenode-agent.tar.gz")
    return [
        {"ansible.builtin.apt": {"name": PACKAGES, "state": "present"}},
        {"community.general.modprobe": modprobe, "loop": names},
        {"ansible.posix.sysctl": sysctl, "loop": "{{ sysctls | dict2items }}"},
        {"ansible.builtin.command": "swapoff -a", "changed_when": False},
        {"ansible.builtin.replace": {"path": "/etc/fstab", "regexp": r"^([^#].*\sswap\s.*)$", "replace": r"# \1"}},
        {"ansible.builtin.file": {"path": PLACE, "state": "directory", "mode": "0755"}},
        {"ansible.builtin.unarchive": {"src": bundle, "dest": PLACE, "creates": f"{PLACE}/bin"}},
        {"ansible.builtin.copy": {"content": "a: 1\n", "dest": f"{PLACE}/config.yaml", "mode": "0644"}},
        {"ansible.builtin.copy": {"content": UNIT, "dest": "/etc/systemd/system/peer.service", "mode": "0644"}},
        {"ansible.builtin.systemd_service": {"name": "peer.service", "enabled": True, "state": "started"}},
    ]


def _fleet(node: Node, size: int) -> Path:
    """Write an inventory with ``size`` hosts. Each is the same node, with a connection of its own."""
    inventory: dict[str, Any] = access.inventory(node.lab)
    nodes = inventory["all"]["children"]["nodes"]
    (host,) = nodes["hosts"].values()
    ssh = nodes["vars"]["ansible_ssh_args"]
    nodes["hosts"] = {
        f"host{index}": {
            **host,
            "ansible_ssh_args": f"-o ControlPath={shlex.quote(str(node.lab.control_directory))}/host{index} {ssh}",
        }
        for index in range(size)
    }
    path = node.lab.directory / f"fleet-{size}.yml"
    path.write_text(access.as_yaml(inventory))
    return path


def _unchanged(run: Run) -> Run:
    if run.changed:
        raise RuntimeError(f"{PLAYBOOK} changed {run.changed} things on a node that it had made")
    return run


def measure(node: Node) -> list[Row]:
    """Return the rows; undo the bootstrap."""
    peers = node.lab.directory / "peers.yml"
    peers.write_text(
        json.dumps([{"hosts": "nodes", "gather_facts": False, "vars": {"sysctls": SYSCTLS}, "tasks": _peers()}])
    )
    run_playbook(node.inventory, PLAYBOOK)
    run_playbook(node.inventory, peers)
    ours, theirs = [], []
    for _round in range(ROUNDS):
        ours.append(_unchanged(run_playbook(node.inventory, PLAYBOOK)))
        theirs.append(run_playbook(node.inventory, peers))
    cost = {size: _unchanged(run_playbook(_fleet(node, size), PLAYBOOK)).cpu / size for size in FLEETS}
    node.run(
        f"systemctl -q disable --now peer && rm -rf {PLACE} /etc/systemd/system/peer.service /etc/sysctl.d/90-peer.conf"
    )
    run_playbook(node.inventory, "kubenode.ipvs.cleanup")
    what = "`bootstrap` (prepare and agent) on a converged node"
    return [
        Row(
            what,
            "`apt`, `modprobe`, `sysctl`, `replace`, `unarchive`, `copy`, `systemd_service`, in loops, without facts",
            [run.seconds for run in ours],
            [run.seconds for run in theirs],
            bar=1 / 4,
        ),
        Row(f"{what}: modules executed on it", "", [run.executions for run in ours], bar=8, unit="times"),
        *(
            Row(
                f"{what}: CPU of the controller per node, in a fleet of {size} (all of them the one lab node)",
                "",
                [seconds],
            )
            for size, seconds in cost.items()
        ),
    ]
