# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The role kubeadm from its first run to its reset, on this machine with a fake kubeadm that works on files below a temporary directory."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import yaml
from support.kubeadm_schema import unknown_fields

ROOT = Path(__file__).parents[2]
TOKEN = "abcdef.0123456789abcdef"
KEY = "7".zfill(64)
PLAY = """
- hosts: all
  gather_facts: false
  serial: 1
  environment:
    PATH: "{{ root }}/bin:{{ lookup('env', 'PATH') }}"
    FAKE_KUBERNETES: "{{ root }}/{{ inventory_hostname }}"
    FAKE_VERSION: "{{ fake_version | default('v1.36.0') }}"
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


class Site:
    """Three nodes in a directory: two for the control plane, one worker."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        (directory / "bin").mkdir()
        for name in ("kubeadm", "kubectl"):
            (directory / "bin" / name).symlink_to(ROOT / "tests/support/fake_kubeadm")
        for name in ("n1", "n2", "w1"):
            (directory / name).mkdir()
        hosts = {
            name: {"ansible_connection": "local", "ansible_python_interpreter": sys.executable} for name in ("n1", "n2", "w1")
        }
        inventory = {"all": {"hosts": hosts, "children": {"control_plane": {"hosts": {"n1": {}, "n2": {}}}}}}
        (directory / "inventory.yml").write_text(yaml.safe_dump(inventory))
        (directory / "play.yml").write_text(PLAY)
        (directory / "check.yml").write_text(PLAY.replace("serial: 1", "serial: 1\n  check_mode: true"))
        (directory / "cni.yml").write_text("kind: DaemonSet\n")

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
            "ANSIBLE_COLLECTIONS_PATH": str(ROOT / "collection"),
            "ANSIBLE_CALLBACK_RESULT_FORMAT": "yaml",
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
    variables = {"kubeadm_cni_manifest": str(site.directory / "cni.yml"), "kubeadm_untaint_control_plane": True}

    # The command line may ask for a dry run, or the play.
    for options, play in ((["--check", "--diff"], "play.yml"), ([], "check.yml")):
        dry = site.run(*options, play=play, **variables)
        assert dry.status == 0, dry.text
        assert all(dry.changed.values()), dry.changed
        assert site.files() == []
        calls = [call for node in ("n1", "n2", "w1") for call in site.calls(node)]
        assert calls == ["kubeadm config validate --config /dev/stdin"] * 3

    first = site.run("--diff", "-vv", **variables)
    assert first.status == 0, first.text
    assert site.files() == ["n1/kubernetes/admin.conf", *(f"{node}/kubernetes/kubelet.conf" for node in ("n1", "n2", "w1"))]

    # What kubeadm was given is what it accepts, in a file for root only; nobody saw a secret.
    given = {**site.documents("n1", "init"), **site.documents("n2", "join")}
    assert [text for document in given.values() for text in unknown_fields(document)] == []
    assert set(given) == {"InitConfiguration", "ClusterConfiguration", "KubeProxyConfiguration", "JoinConfiguration"}
    assert given["JoinConfiguration"]["discovery"]["bootstrapToken"]["token"] == TOKEN
    assert given["JoinConfiguration"]["controlPlane"]["certificateKey"] == KEY
    assert "controlPlane" not in site.documents("w1", "join")["JoinConfiguration"]
    assert {(site.directory / name).read_text().strip() for name in ("n1/init.mode", "n2/join.mode", "w1/join.mode")} == {"600"}
    calls = {node: site.calls(node) for node in ("n1", "n2", "w1")}
    assert not any(secret in text for secret in (TOKEN, KEY) for text in (first.text, str(calls)))
    assert "/n1/kubernetes/kubenode-kubeadm.yaml --skip-token-print" in calls["n1"][1]
    assert calls["n1"][-1].endswith("taint nodes n1 node-role.kubernetes.io/control-plane-")
    assert [call.split(" --")[0] for call in calls["n2"]] == [
        "kubeadm token create",
        "kubeadm init phase upload-certs",
        "kubeadm config validate",
        "kubeadm join",
        "kubeadm token delete abcdef",
    ]
    assert [call.split(" --")[0] for call in calls["w1"]] == [
        "kubeadm token create",
        "kubeadm config validate",
        "kubeadm join",
        "kubeadm token delete abcdef",
    ]

    for options in ([], ["--check"]):
        again = site.run(*options, **variables)
        assert again.status == 0, again.text
        assert again.changed == {"n1": 0, "n2": 0, "w1": 0}
        assert not any(
            word in call for node in ("n1", "n2", "w1") for call in site.calls(node) for word in (" init", " join", " token")
        )

    reset = site.run(tasks_from="reset")
    assert reset.status == 0, reset.text
    assert site.files() == []


def test_one_node_after_the_other(site: Site) -> None:
    for node in ("n1", "w1"):
        one = site.run("--limit", node)
        assert one.status == 0, one.text
        assert list(one.changed) == [node]
    assert site.files() == ["n1/kubernetes/admin.conf", "n1/kubernetes/kubelet.conf", "w1/kubernetes/kubelet.conf"]


def test_a_kubeadm_that_fails_is_not_taken_for_done(site: Site) -> None:
    (site.directory / "n1/fail").touch()
    failed = site.run("--limit", "n1")
    assert failed.status == 2
    assert "it is a fake" in failed.text
    assert site.files() == ["n1/kubernetes/kubenode-unfinished"]

    (site.directory / "n1/fail").unlink()
    site.calls("n1")
    refused = site.run("--limit", "n1")
    assert refused.status == 2
    assert "An earlier kubeadm did not get to its end on n1." in refused.text
    assert site.calls("n1") == []

    assert site.run("--limit", "n1", tasks_from="reset").status == 0
    assert site.run("--limit", "n1").status == 0


def test_kube_proxy_and_the_agent_never_run_both(site: Site) -> None:
    (site.directory / "n1/kube-proxy").write_text("daemonset.apps/kube-proxy\n")
    refused = site.run("--limit", "n1", fake_version="v1.40.0", kubeadm_agent=True)
    assert refused.status == 2
    assert "kube-proxy runs in this cluster, and the agent does not work beside it." in refused.text
    built = site.documents("n1", "init")
    assert built["InitConfiguration"]["skipPhases"] == ["addon/kube-proxy"]
    assert built["ClusterConfiguration"]["proxy"] == {"disabled": True}


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
