# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The role kubeadm from its first run to its reset, on this machine, below a temporary directory.

A fake stands in for kubeadm and kubectl, which says what the real ones were recorded to say, and an empty role for the agent's.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import yaml
from support import fake_kubeadm
from support.kubeadm_answers import GOLDEN, said
from support.kubeadm_cases import JOIN, JOIN_CONTROL_PLANE

ROOT = Path(__file__).parents[2]
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
    """How a run ended: its exit status, all that it printed, the changed tasks by host."""

    status: int
    text: str
    changed: dict[str, int]


# Stands in for the role agent: keeps what it was told, or takes it away.
AGENT = """
- ansible.builtin.copy:
    content: "{{ {'proxy_config': agent_proxy_config, 'settings': agent_settings} | to_json }}"
    dest: "{{ root }}/{{ inventory_hostname }}/agent.json"
    mode: "0600"
  when: agent_state | default('present') == 'present'
- ansible.builtin.file:
    path: "{{ root }}/{{ inventory_hostname }}/agent.json"
    state: absent
  when: agent_state | default('present') == 'absent'
"""


class Site:
    """Three nodes in a directory: two for the control plane, one worker."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        (directory / "bin").mkdir()
        fake_kubeadm.install(directory / "bin")
        for name in NODES:
            (directory / name).mkdir()
        self._collection(directory / "collections/ansible_collections/kubenode/ipvs")
        host = {"ansible_connection": "local", "ansible_python_interpreter": sys.executable}
        children = {"control_plane": {"hosts": {"n1": {}, "n2": {}}}}
        inventory = {"all": {"hosts": {name: dict(host) for name in NODES}, "children": children}}
        (directory / "inventory.yml").write_text(yaml.safe_dump(inventory, sort_keys=False))
        (directory / "play.yml").write_text(PLAY)
        (directory / "check.yml").write_text(PLAY.replace("serial: 1", "serial: 1\n  check_mode: true"))

    def _collection(self, place: Path) -> None:
        (place / "roles/agent/tasks").mkdir(parents=True)
        for name in ("meta", "plugins", "galaxy.yml", "roles/kubeadm"):
            (place / name).symlink_to(ROOT / name)
        (place / "roles/agent/tasks/main.yml").write_text(AGENT)

    def run(self, *options: str, play: str = "play.yml", **variables: Any) -> Run:
        """Run the role on all nodes, or on those that the options say; ``check.yml`` is the play in check mode."""
        given = {
            "root": str(self.directory),
            "kubeadm_directory": str(self.directory / "{{ inventory_hostname }}/kubernetes"),
            "kubeadm_agent_kubeconfig": str(self.directory / "{{ inventory_hostname }}/kubeconfig"),
            "kubeadm_control_plane_endpoint": "192.0.2.10:6443",
            "kubeadm_agent": False,
            **variables,
        }
        command = [
            Path(sys.executable).with_name("ansible-playbook"),
            "-i",
            "inventory.yml",
            "--extra-vars",
            json.dumps(given),
            play,
        ]
        environment = {
            **os.environ,
            "ANSIBLE_COLLECTIONS_PATH": str(self.directory / "collections"),
            "ANSIBLE_CALLBACK_RESULT_FORMAT": "yaml",
            "ANSIBLE_LOCAL_TEMP": str(self.directory / "temporary"),
            "ANSIBLE_REMOTE_TEMP": str(self.directory / "temporary"),
        }
        done = subprocess.run(
            [*command, *options], cwd=self.directory, env=environment, check=False, capture_output=True, text=True
        )
        text = " ".join((done.stdout + done.stderr).split())  # messages are wrapped
        recap = [line.split() for line in done.stdout.partition("PLAY RECAP")[2].splitlines() if "changed=" in line]
        return Run(done.returncode, text, {words[0]: int(words[3].partition("=")[2]) for words in recap})

    def calls(self, node: str) -> list[str]:
        """Take what the fakes were called with on behalf of a node, without questions for the version."""
        path = self.directory / node / "calls"
        lines = path.read_text().splitlines() if path.exists() else []
        path.unlink(missing_ok=True)
        return [line for line in lines if " version " not in line]

    def documents(self, node: str, command: str) -> dict[str, dict[str, Any]]:
        """What kubeadm was given, by kind."""
        text = (self.directory / node / f"{command}.yaml").read_text()
        return {document["kind"]: document for document in yaml.safe_load_all(text)}

    def left(self) -> list[Path]:
        """All files of nodes and of Ansible, without what the fakes keep of what they were given."""
        places = [self.directory / "temporary", *(self.directory / node for node in NODES)]
        return [path for place in places for path in place.rglob("*") if path.is_file() and path.name != "join.yaml"]

    def files(self) -> list[str]:
        """The files that nodes have, without those of the fakes."""
        kept = (path for path in self.directory.glob("[nw]*/**/*") if path.is_file())
        return sorted(
            str(path.relative_to(self.directory))
            for path in kept
            if path.parent.name == "kubernetes" or path.name == "kubeconfig"
        )


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return Site(tmp_path)


def test_a_cluster_from_nothing_to_nothing(site: Site) -> None:
    variables = {"kubeadm_cni_manifest": str(GOLDEN / "manifest.yaml"), "kubeadm_untaint_control_plane": True}

    # The command line may ask for a dry run, or the play.
    for options, play in ((["--check", "--diff"], "play.yml"), ([], "check.yml")):
        dry = site.run(*options, play=play, **variables)
        assert dry.status == 0, dry.text
        assert all(dry.changed.values()), dry.changed
        assert ("kind: JoinConfiguration" in dry.text) == ("--diff" in options)
        assert site.files() == []
        assert [call for node in NODES for call in site.calls(node)] == ["kubeadm config validate --config /dev/stdin"] * 3

    first = site.run("--diff", "-vvv", **variables)
    assert first.status == 0, first.text
    assert site.files() == ["n1/kubernetes/admin.conf", *(f"{node}/kubernetes/kubelet.conf" for node in NODES)]

    # What kubeadm was given is what a real one accepts, with the secrets that it was told.
    assert fake_kubeadm.accepted(list(site.documents("n1", "init").values()))
    for node, sample in (("n2", JOIN_CONTROL_PLANE), ("w1", JOIN)):
        joined = site.documents(node, "join")["JoinConfiguration"]
        assert joined["discovery"] == {"bootstrapToken": {"apiServerEndpoint": ENDPOINT, "token": TOKEN, "caCertHashes": [HASH]}}
        example = {
            "apiServerEndpoint": sample["api_server_endpoint"],
            "token": sample["token"],
            "caCertHashes": [sample["ca_cert_hash"]],
        }
        joined["discovery"] = {"bootstrapToken": example}
        if node == "n2":
            assert joined["controlPlane"]["certificateKey"] == KEY
            joined["controlPlane"]["certificateKey"] = sample["certificate_key"]
        assert fake_kubeadm.accepted([joined])

    # The secrets went nowhere but into kubeadm.
    calls = {node: site.calls(node) for node in NODES}
    for secret in (TOKEN, KEY):
        assert secret not in first.text
        assert secret not in str(calls)
        assert [path for path in site.left() if secret in path.read_text(errors="replace")] == []
    assert "kubeadm init --config /dev/stdin --skip-token-print" in calls["n1"]
    assert calls["n1"][-1].endswith("taint nodes n1 node-role.kubernetes.io/control-plane-")
    steps = ["kubeadm token create", "kubeadm config validate", "kubeadm join", "kubeadm token delete"]
    assert [call.split(" --")[0] for call in calls["w1"]] == [*steps[:3], f"{steps[3]} {TOKEN.partition('.')[0]}"]
    steps[1:1] = ["kubeadm init phase upload-certs"]
    assert [call.split(" --")[0] for call in calls["n2"]] == [*steps[:4], f"{steps[4]} {TOKEN.partition('.')[0]}"]

    for options in ([], ["--check"]):
        again = site.run(*options, **variables)
        assert again.status == 0, again.text
        assert again.changed == {"n1": 0, "n2": 0, "w1": 0}
        assert not any(word in call for node in NODES for call in site.calls(node) for word in (" init", " join", " token"))

    reset = site.run(tasks_from="reset")
    assert reset.status == 0, reset.text
    assert site.files() == []
    assert site.run(tasks_from="reset").changed == {"n1": 0, "n2": 0, "w1": 0}


def test_one_node_after_the_other(site: Site) -> None:
    for node in ("n1", "w1"):
        one = site.run("--limit", node)
        assert one.status == 0, one.text
        assert list(one.changed) == [node]
    assert site.files() == ["n1/kubernetes/admin.conf", "n1/kubernetes/kubelet.conf", "w1/kubernetes/kubelet.conf"]


def test_an_inventory_in_another_order_makes_no_other_cluster(site: Site) -> None:
    assert site.run("--limit", "n1").status == 0
    text = (site.directory / "inventory.yml").read_text()
    (site.directory / "inventory.yml").write_text(
        text.replace("n1: {}", "x: {}").replace("n2: {}", "n1: {}").replace("x: {}", "n2: {}")
    )
    for options in ([], ["--check"]):
        refused = site.run("--limit", "n2", *options)
        assert refused.status == 2
        assert "n1: there is a cluster already, and kubeadm init on n2 would make another one." in refused.text
    assert site.files() == ["n1/kubernetes/admin.conf", "n1/kubernetes/kubelet.conf"]


def test_a_manifest_is_checked_as_far_as_a_dry_run_can(site: Site) -> None:
    """A server's dry run makes no namespace, and says of what would be in it that there is none."""
    assert site.run("--limit", "n1").status == 0
    variables = {"kubeadm_cni_manifest": str(GOLDEN / "manifest.yaml")}
    dry = site.run("--limit", "n1", "--check", **variables)
    assert (dry.status, dry.changed) == (0, {"n1": 1}), dry.text
    assert site.run("--limit", "n1", **variables).changed == {"n1": 1}
    assert site.run("--limit", "n1", "--check", **variables).changed == {"n1": 0}


@pytest.mark.parametrize("failure", ["init-preflight", "init-config"])
def test_a_kubeadm_that_only_looked_can_be_run_again(site: Site, failure: str) -> None:
    (site.directory / "n1/fail").write_text(failure)
    failed = site.run("--limit", "n1")
    assert failed.status == 2
    assert "kubeadm init failed on n1 before it changed anything: " in failed.text
    assert " ".join(said(failure, "stderr").split()[-8:]) in failed.text
    assert site.files() == []
    (site.directory / "n1/fail").unlink()
    assert site.run("--limit", "n1").status == 0


def test_a_kubeadm_that_fails_half_way_is_not_taken_for_done(site: Site) -> None:
    (site.directory / "n1/fail").write_text("init-half-way")
    failed = site.run("--limit", "n1")
    assert failed.status == 2
    assert "kubeadm init failed on n1 half way: " in failed.text
    assert "error execution phase " in failed.text
    assert site.files() == ["n1/kubernetes/kubenode-unfinished"]

    (site.directory / "n1/fail").unlink()
    site.calls("n1")
    refused = site.run("--limit", "n1")
    assert refused.status == 2
    assert "An earlier kubeadm did not get to its end on n1." in refused.text
    assert site.calls("n1") == []

    assert site.run("--limit", "n1", tasks_from="reset").status == 0
    assert site.run("--limit", "n1").status == 0


def test_a_join_that_fails_shows_why_and_no_secret(site: Site) -> None:
    assert site.run("--limit", "n1").status == 0
    (site.directory / "w1/fail").write_text("join-preflight")
    failed = site.run("--limit", "w1", "-vvv")
    assert failed.status == 2
    assert "kubeadm join failed on w1 before it changed anything: " in failed.text
    assert "error execution phase preflight" in failed.text
    assert TOKEN not in failed.text
    assert site.calls("w1")[-1].startswith(f"kubeadm token delete {TOKEN.partition('.')[0]} ")


def test_a_join_may_take_longer_than_its_token_lives(site: Site) -> None:
    assert site.run("--limit", "n1").status == 0
    (site.directory / "w1/expired").touch()
    joined = site.run("--limit", "w1")
    assert joined.status == 0, joined.text
    assert "w1/kubernetes/kubelet.conf" in site.files()


def test_the_agent_in_the_place_of_kube_proxy(site: Site) -> None:
    variables = {"kubeadm_agent": True, "kubeadm_proxy": "agent", "kubeadm_ipvs_scheduler": "wrr", "kubeadm_node_name": "one"}
    first = site.run("--limit", "n1", "--diff", "-vvv", **variables)
    assert first.status == 0, first.text
    agent = json.loads((site.directory / "n1/agent.json").read_text())
    assert (agent["proxy_config"]["ipvs"]["scheduler"], agent["proxy_config"]["hostnameOverride"]) == ("wrr", "one")
    kubeconfig = site.directory / "n1/kubeconfig"
    assert agent["settings"] == {"source": {"kubernetes": {"kubeconfig": str(kubeconfig)}}}
    assert kubeconfig.read_text() == said("kubeconfig-user").rstrip() + "\n"
    assert kubeconfig.stat().st_mode & 0o777 == 0o600
    assert yaml.safe_load(said("kubeconfig-user"))["users"][0]["user"]["client-key-data"] not in first.text
    built = site.documents("n1", "init")
    assert built["InitConfiguration"]["skipPhases"] == ["addon/kube-proxy"]
    assert built["ClusterConfiguration"]["proxy"] == {"disabled": True}

    # Its certificate is good for a year.
    for days, made in ((240, 0), (260, 1), (1, 0)):
        long_ago = time.time() - days * 86400
        os.utime(kubeconfig, (long_ago, long_ago))
        site.calls("n1")
        assert site.run("--limit", "n1", **variables).status == 0
        assert sum(call.startswith("kubeadm kubeconfig user ") for call in site.calls("n1")) == made

    assert site.run("--limit", "n1", tasks_from="reset").status == 0
    assert site.files() == []
    assert not (site.directory / "n1/agent.json").exists()


def test_the_agent_of_another_node_is_told_the_address_of_the_first(site: Site) -> None:
    inventory = yaml.safe_load((site.directory / "inventory.yml").read_text())
    for number, name in enumerate(NODES, start=11):
        inventory["all"]["hosts"][name]["kubeadm_advertise_address"] = f"192.0.2.{number}"
    (site.directory / "inventory.yml").write_text(yaml.safe_dump(inventory))
    for node in ("n1", "w1"):
        done = site.run("--limit", node, kubeadm_agent=True, kubeadm_proxy="agent", kubeadm_control_plane_endpoint="")
        assert done.status == 0, done.text
        asked = site.documents(node, "kubeconfig-user")
        assert asked["InitConfiguration"]["localAPIEndpoint"]["advertiseAddress"] == "192.0.2.11"


def test_kube_proxy_and_the_agent_never_run_both(site: Site) -> None:
    (site.directory / "n1/kube-proxy").touch()
    refused = site.run("--limit", "n1", fake_version="v1.40.0", kubeadm_agent=True)
    assert refused.status == 2
    assert "kube-proxy runs in this cluster, and the agent does not work beside it." in refused.text
    assert not (site.directory / "n1/agent.json").exists()


def test_what_cannot_work_is_said_before_anything_is_done(site: Site) -> None:
    refused = site.run("--limit", "n1", kubeadm_proxy="kube-proxy", fake_version="v1.43.0")
    assert refused.status == 2
    assert "kube-proxy has no ipvs mode any more from 1.43 on" in refused.text
    nowhere = site.run("--limit", "n1", kubeadm_control_plane_group="masters")
    assert "The inventory has no group masters with a host in it" in nowhere.text
    shutil.rmtree(site.directory / "bin")
    missing = site.run("--limit", "n1")
    assert "kubeadm does not run on n1: " in missing.text
    assert site.files() == []
    assert site.calls("n1") == []
