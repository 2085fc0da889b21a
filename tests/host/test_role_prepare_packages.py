# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The role prepare installs the commands on nodes of other distribution families.

Ansible runs on this machine; the node is a root directory with dnf, zypper or pacman.
"""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from support.distributions.foreign_packages import FAMILIES, UNCHECKED, Package
from support.distributions.foreign_root import ForeignRoot
from support.playbooks import run_playbook

ROOT = Path(__file__).parents[2]
COMMANDS = {"ipset": "ipset", "ipvsadm": "ipvsadm", "conntrack-tools": "conntrack", "kmod": "modprobe"}
PLAY = """
- hosts: all
  gather_facts: false
  tasks:
    - kubenode.ipvs.node_check:
        modules: []
        commands: [ipset, ipvsadm, iptables-restore, conntrack, modprobe]
      register: prepare_node
    - ansible.builtin.include_role:
        name: kubenode.ipvs.prepare
        tasks_from: packages
      vars:
        prepare_kernel_modules: []
        prepare_files: []
    - ansible.builtin.debug:
        msg: "changed={{ prepare_packages_result.changed }} missing={{ prepare_packages_result.missing | join(' ') }}"
"""


@pytest.mark.parametrize(("key", "iptables"), [("redhat", "iptables-nft"), ("suse", "iptables"), ("arch", "iptables")])
def test_prepare_installs_all_commands_without_network(key: str, iptables: str, tmp_path: Path) -> None:
    family = FAMILIES[key]
    root = ForeignRoot(tmp_path)
    try:
        root.write("/etc/os-release", family.os_release)
        root.run("rm", "-f", "/usr/sbin/iptables-restore", "/usr/sbin/modprobe")  # Debian's own commands
        if key in UNCHECKED:
            root.write(*UNCHECKED[key])
        packages = tmp_path / "packages"
        packages.mkdir()
        for name, command in {**COMMANDS, iptables: "iptables-restore"}.items():
            family.build(
                root, Package(name, f"/usr/bin/{command}", requires="library" if name == "ipset" else ""), packages
            )
        family.build(root, Package("library", "/usr/lib/library"), packages)
        host = {"ansible_connection": "local", "ansible_remote_tmp": f"{tmp_path}/remote"}
        host["ansible_python_interpreter"] = root.interpreter(tmp_path / "python")
        (tmp_path / "inventory.json").write_text(json.dumps({"all": {"hosts": {"node": host}}}))
        (tmp_path / "play.yml").write_text(PLAY)
        names = f"ipset ipvsadm conntrack-tools {iptables} kmod"

        for options in (["--check"], []):
            assert f"changed=True missing={names}" in _play(tmp_path, *options)
        assert 'changed=False missing="' in _play(tmp_path)
        root.run("which", "ipset", "ipvsadm", "conntrack", "iptables-restore", "modprobe")
        assert list((tmp_path / "remote").iterdir()) == []
    finally:
        root.close()


def _play(directory: Path, *options: str) -> str:
    given = json.dumps({"prepare_packages_directory": str(directory / "packages")})
    words = ["-i", "inventory.json", "-e", given, "play.yml", *options]
    plain = {"ANSIBLE_COLLECTIONS_PATH": str(ROOT / "collection"), "ANSIBLE_CALLBACK_RESULT_FORMAT": "json"}
    done = run_playbook(words, directory, {**os.environ, **plain})
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout
