# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Three nodes in a directory of this machine, for tests of the role kubeadm from its first run to its reset.

A fake with recorded answers replaces kubeadm and kubectl, and a minimal role replaces the role agent.
"""

from __future__ import annotations

import atexit
import functools
import json
import os
import re
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any, NamedTuple

import yaml
from support.fakes import kubeadm as fake_kubeadm
from support.kubeadm.answers import said
from support.playbooks import run_playbook

ROOT = Path(__file__).parents[3]
_, ENDPOINT, TOKEN, HASH = re.split(r" --\S+ | join ", said("token-create").strip())
KEY = said("upload-certs").split()[-1]
NODES = ("n1", "n2", "w1")
PLAY = """
- hosts: all
  gather_facts: false
  serial: 1
  environment:
    PATH: "{{ root }}/bin:{{ lookup('env', 'PATH') }}"
    FAKE_KUBERNETES: "{{ root }}/{{ inventory_hostname }}"
    FAKE_VERSION: "{{ fake_version | default('') }}"
  tasks:
    - ansible.builtin.include_role:
        name: kubenode.ipvs.kubeadm
        tasks_from: "{{ tasks_from | default('main') }}"
"""


class Run(NamedTuple):
    """Result of a run: exit status, output, changed tasks by host."""

    status: int
    text: str
    changed: dict[str, int]


# Replaces the role agent: writes its variables to a file, or removes this file and the kubeconfig.
AGENT = """
- ansible.builtin.copy:
    content: "{{ {'proxy_config': agent_proxy_config, 'settings': agent_settings} | to_json }}"
    dest: "{{ root }}/{{ inventory_hostname }}/agent.json"
    mode: "0600"
  when: agent_state | default('present') == 'present'
- ansible.builtin.file:
    path: "{{ item }}"
    state: absent
  loop: ["{{ root }}/{{ inventory_hostname }}/agent.json", "{{ root }}/{{ inventory_hostname }}/kubeconfig"]
  when: agent_state | default('present') == 'absent'
"""


@functools.cache
def collections() -> Path:
    """Return a directory with the role kubeadm, and the minimal role agent; it is removed at the end."""
    directory = Path(tempfile.mkdtemp(prefix="kubeadm-collections-"))
    atexit.register(shutil.rmtree, directory)
    collection = directory / "ansible_collections/kubenode/ipvs"
    (collection / "roles/agent/tasks").mkdir(parents=True)
    for name in ("meta", "plugins", "galaxy.yml", "roles/kubeadm"):
        (collection / name).symlink_to(ROOT / name)
    (collection / "roles/agent/tasks/main.yml").write_text(AGENT)
    return directory


class Site:
    """Three nodes in a directory: two for the control plane, one worker."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        (directory / "bin").mkdir()
        fake_kubeadm.install(directory / "bin")
        for name in NODES:
            (directory / name).mkdir()
        host = {"ansible_connection": "local", "ansible_python_interpreter": sys.executable}
        children = {"control_plane": {"hosts": {"n1": {}, "n2": {}}}}
        inventory = {"all": {"hosts": {name: dict(host) for name in NODES}, "children": children}}
        (directory / "inventory.yml").write_text(yaml.safe_dump(inventory, sort_keys=False))
        (directory / "play.yml").write_text(PLAY)
        (directory / "check.yml").write_text(PLAY.replace("serial: 1", "serial: 1\n  check_mode: true"))

    def run(self, *options: str, play: str = "play.yml", **variables: Any) -> Run:
        """Run the role on all nodes, unless the options limit them; ``check.yml`` is the play in check mode."""
        given = {
            "root": str(self.directory),
            "kubeadm_directory": str(self.directory / "{{ inventory_hostname }}/kubernetes"),
            "kubeadm_agent_kubeconfig": str(self.directory / "{{ inventory_hostname }}/kubeconfig"),
            "kubeadm_agent_user_file": str(self.directory / "{{ inventory_hostname }}/agent.json"),
            "kubeadm_control_plane_endpoint": "192.0.2.10:6443",
            "kubeadm_agent": False,
            **variables,
        }
        environment = {
            **os.environ,
            "ANSIBLE_COLLECTIONS_PATH": str(collections()),
            "ANSIBLE_CALLBACK_RESULT_FORMAT": "yaml",
            "ANSIBLE_PIPELINING": "true",
            "ANSIBLE_LOCAL_TEMP": str(self.directory / "temporary"),
            "ANSIBLE_REMOTE_TEMP": str(self.directory / "temporary"),
        }
        words = ["-i", "inventory.yml", "--extra-vars", json.dumps(given), play, *options]
        done = run_playbook(words, self.directory, environment)
        text = " ".join((done.stdout + done.stderr).split())  # Ansible wraps messages
        recap = [line.split() for line in done.stdout.partition("PLAY RECAP")[2].splitlines() if "changed=" in line]
        return Run(done.returncode, text, {words[0]: int(words[3].partition("=")[2]) for words in recap})

    def calls(self, node: str) -> list[str]:
        """Return and remove the recorded calls of a node's fakes, without calls for the version."""
        path = self.directory / node / "calls"
        lines = path.read_text().splitlines() if path.exists() else []
        path.unlink(missing_ok=True)
        return [line for line in lines if " version " not in line]

    def documents(self, node: str, command: str) -> dict[str, dict[str, Any]]:
        """Return the documents given to a command of kubeadm, by kind."""
        text = (self.directory / node / f"{command}.yaml").read_text()
        return {document["kind"]: document for document in yaml.safe_load_all(text)}

    def left(self) -> list[Path]:
        """Return all files of nodes and of Ansible, except the fake's copy of the join configuration."""
        directories = [self.directory / "temporary", *(self.directory / node for node in NODES)]
        files = (path for directory in directories for path in directory.rglob("*"))
        return [path for path in files if path.is_file() and path.name != "join.yaml"]

    def files(self) -> list[str]:
        """Return the files of the nodes, without those of the fakes."""
        kept = (path for path in self.directory.glob("[nw]*/**/*") if path.is_file())
        return sorted(
            str(path.relative_to(self.directory))
            for path in kept
            if path.parent.name == "kubernetes" or path.name == "kubeconfig"
        )
