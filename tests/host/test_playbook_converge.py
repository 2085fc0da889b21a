# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The playbook converge before it connects to a node: which state file it reads, and which input it refuses.

No node answers in these tests.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

from support.playbooks import run_playbook

ROOT = Path(__file__).parents[2]
PROGRAMS = Path(sys.executable).parent
FAILED = re.compile(r"^fatal: \[(\w+)\]: (FAILED|UNREACHABLE)! => (\{.*\})$", re.MULTILINE)
VARIABLES = {"kubenode_owner": "edge", "kubenode_kernel_modules": ["ip_vs"]}
PLAIN = "kubenode_owner: edge\nkubenode_kernel_modules: [ip_vs]\n"


def converge(site: Path, state_files: dict[str, str | None], *options: str) -> dict[str, tuple[str, str]]:
    """Run the playbook in the site's directory, once, with a state file for each host.

    Return how the play ended for each host: FAILED or UNREACHABLE, and the reason.
    """
    hosts: dict[str, dict[str, Any]] = {}
    for name, file in state_files.items():
        hosts[name] = {"ansible_host": "127.0.0.1", "ansible_port": 1, **({"state_file": file} if file else {})}
    (site / "inventory.yml").write_text(json.dumps({"all": {"hosts": hosts}}))
    environment = {key: value for key, value in os.environ.items() if not key.startswith("ANSIBLE_")}
    done = run_playbook(
        ["-i", "inventory.yml", "kubenode.ipvs.converge", *options],
        site,
        {**environment, "PWD": str(site), "ANSIBLE_COLLECTIONS_PATH": str(ROOT / "collection")},
    )
    return {name: (how, json.loads(result)["msg"]) for name, how, result in FAILED.findall(done.stdout)}


def vault(site: Path, *words: str) -> str:
    command = [PROGRAMS / "ansible-vault", *words[:1], "--vault-password-file", "password", *words[1:]]
    return subprocess.run(command, cwd=site, check=True, capture_output=True, text=True).stdout


def test_state_file_is_located_and_may_be_vaulted(tmp_path: Path) -> None:
    (tmp_path / "states").mkdir()
    (tmp_path / "password").write_text("secret")
    for name in ("edge.yml", "states/edge.yaml", "sealed.yml"):
        (tmp_path / name).write_text(PLAIN)
    (tmp_path / "edge.json").write_text(json.dumps(VARIABLES))
    vault(tmp_path, "encrypt", "sealed.yml")
    owner = vault(tmp_path, "encrypt_string", "--name", "kubenode_owner", "edge")
    (tmp_path / "inline.yml").write_text(f"{owner}\nkubenode_kernel_modules: [ip_vs]\n")
    files: dict[str, str | None] = {
        "yaml": "edge.yml",
        "json": "edge.json",
        "below": "states/edge.yaml",
        "absolute": f"{tmp_path}/edge.yml",
    }
    files.update(sealed="sealed.yml", inline="inline.yml", without=None)
    ended = converge(tmp_path, files, "--vault-password-file", "password")
    # Each host with a state file has work to do; the play skips the host without one.
    assert {name: how for name, (how, _why) in ended.items()} == dict.fromkeys(set(files) - {"without"}, "UNREACHABLE")


BAD = {
    "missing": ("nowhere.yml", None, "Could not find or access"),
    "list": ("list.yml", "- kubenode_services\n", "must be stored as a dictionary/hash"),
    "yaml": ("broken.yml", "kubenode_services: [\n", "cannot be read"),
    "json": ("broken.json", "{", "cannot be read"),
    "sealed": ("sealed.yml", PLAIN, "vault"),
    "typo": (
        "typo.yml",
        "kubenode_servces: []\n",
        "typo.yml has kubenode_servces, expected one of kubenode_kernel_modules, ",
    ),
    "name": ("name.yml", "services: []\nkubenode_owner: edge\n", "name.yml has services, expected one of "),
    "option": (
        "option.yml",
        "kubenode_service_proxy: {sources: /x}\n",
        "kubenode_service_proxy has sources, expected one of objects, src, ",
    ),
}


def test_invalid_state_file_is_refused_by_name(tmp_path: Path) -> None:
    (tmp_path / "password").write_text("secret")
    for name, content, _reason in BAD.values():
        if content is not None:
            (tmp_path / name).write_text(content)
    vault(tmp_path, "encrypt", "sealed.yml")
    ended = converge(tmp_path, {host: name for host, (name, _content, _reason) in BAD.items()})
    assert set(ended) == set(BAD)
    for host, (name, _content, reason) in BAD.items():
        how, why = ended[host]
        assert (how, reason in why, why.endswith("; nothing was changed")) == ("FAILED", True, True), why
        assert str(tmp_path / name) in why or host == "option"


def test_converge_without_any_state_is_refused(tmp_path: Path) -> None:
    ended = converge(tmp_path, {"n1": None, "n2": None}, "-e", "statefile=edge.yml")
    assert {how for how, _why in ended.values()} == {"FAILED"}
    assert "there is nothing to converge: neither state_file nor any of kubenode_kernel_modules, " in ended["n1"][1]
