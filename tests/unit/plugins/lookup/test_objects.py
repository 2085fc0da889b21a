# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The lookup objects, with the same rules as the agent's manifests."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from ansible.errors import AnsibleError
from ansible.parsing.dataloader import DataLoader
from support.clusters import objects as make

from ansible_collections.kubenode.ipvs.plugins.lookup.objects import LookupModule


def looked_up(*terms: Path | str, **options: str) -> list[dict[str, Any]]:
    lookup = LookupModule(loader=DataLoader())
    lookup._load_name = "kubenode.ipvs.objects"
    lookup.set_options = lambda **_options: None  # the test has no plugin loader that defines options
    lookup.get_option = options.get
    return lookup.run([str(term) for term in terms], {})


def test_directory_of_lists_yaml_and_other_kinds_is_read(tmp_path: Path) -> None:
    pod = {"kind": "Pod", "apiVersion": "v1", "metadata": {"name": "p"}}
    listed = {"kind": "List", "apiVersion": "v1", "items": [make.service("a"), pod]}
    (tmp_path / "a.json").write_text(json.dumps(listed))
    (tmp_path / "b.yaml").write_text("kind: Node\napiVersion: v1\nmetadata: {name: n1, managedFields: [{}]}\n")
    (tmp_path / "c.txt").write_text("{")
    items = sorted(looked_up(tmp_path), key=lambda item: item["kind"])
    assert [(item["kind"], item["metadata"]["name"]) for item in items] == [("Node", "n1"), ("Service", "a")]
    assert "managedFields" not in items[0]["metadata"]
    assert looked_up(tmp_path / "b.yaml") == items[:1]


def test_unreadable_files_are_named(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text('{"kind": "List", "items": [')
    with pytest.raises(AnsibleError, match=r"a\.json:1: not valid JSON"):
        looked_up(tmp_path)
    with pytest.raises(AnsibleError, match="nowhere does not exist on the controller"):
        looked_up("nowhere")


def test_duplicate_objects_are_refused(tmp_path: Path) -> None:
    for name in ("a.json", "b.json"):
        (tmp_path / name).write_text(json.dumps(make.service("a")))
    with pytest.raises(AnsibleError, match=r"Service ns1/a is also in a\.json"):
        looked_up(tmp_path)
    with pytest.raises(AnsibleError, match=r"Service ns1/a is in .*b\.json and in an earlier source"):
        looked_up(tmp_path / "a.json", tmp_path / "b.json")


def test_objects_come_in_the_order_of_the_file(tmp_path: Path) -> None:
    names = [f"s{number}" for number in range(50)]
    (tmp_path / "a.json").write_text(json.dumps([make.service(name) for name in names]))
    assert [item["metadata"]["name"] for item in looked_up(tmp_path)] == names


def fake_kubectl(directory: Path, *lines: str) -> str:
    """Write a shell script in place of kubectl."""
    path = directory / "kubectl"
    path.write_text("\n".join(["#!/bin/sh", *lines]) + "\n")
    path.chmod(0o755)
    return str(path)


def test_cluster_is_read_with_kubectl(tmp_path: Path) -> None:
    listed = {"kind": "List", "apiVersion": "v1", "items": [make.service("a"), make.piece("a", [], [])]}
    (tmp_path / "answer").write_text(json.dumps(listed))
    kubectl = fake_kubectl(tmp_path, f'echo "$@" >{tmp_path}/words', f"cat {tmp_path}/answer")
    items = looked_up(kubectl=kubectl, kubeconfig="k/config", context="c")
    assert [item["kind"] for item in items] == ["Service", "EndpointSlice"]
    assert (tmp_path / "words").read_text().split() == (
        "--kubeconfig k/config --context c get services,endpointslices.discovery.k8s.io,nodes"
        " --all-namespaces --output json"
    ).split()
    (tmp_path / "more.json").write_text(json.dumps(make.service("a")))
    with pytest.raises(AnsibleError, match="Service ns1/a is in the cluster of k/config and in an earlier source"):
        looked_up(tmp_path / "more.json", kubectl=kubectl, kubeconfig="k/config")


# messages of kubectl 1.36, shortened
OUTPUT = """\
E1122 05:48:35.538492   32661 memcache.go:265] "Unhandled Error" err="couldn't get current server API group list: EOF"
I1122 05:48:35.538692   32661 helpers.go:246] Connection error: EOF
Unable to connect: EOF
Unable to connect: EOF
Error from server: no

"""


def test_unreadable_cluster_is_named(tmp_path: Path) -> None:
    with pytest.raises(AnsibleError, match="expected files or directories, or a kubeconfig"):
        looked_up()
    with pytest.raises(
        AnsibleError, match="nothing/kubectl cannot be run on the controller: No such file or directory"
    ):
        looked_up(kubectl="nothing/kubectl", kubeconfig="k")
    kubectl = fake_kubectl(tmp_path, "echo 'error: You must be logged in to the server (Unauthorized)' >&2", "exit 1")
    with pytest.raises(AnsibleError, match=r"the cluster of k cannot be read: error: .*\(Unauthorized\)$"):
        looked_up(kubectl=kubectl, kubeconfig="k")
    (tmp_path / "output").write_text(OUTPUT)
    kubectl = fake_kubectl(tmp_path, f"cat {tmp_path}/output >&2", "exit 1")
    with pytest.raises(
        AnsibleError, match=r"the cluster of k cannot be read: Unable to connect: EOF; Error from server: no$"
    ):
        looked_up(kubectl=kubectl, kubeconfig="k")
    with pytest.raises(AnsibleError, match=r"the cluster of k cannot be read: kubectl ended with status 3$"):
        looked_up(kubectl=fake_kubectl(tmp_path, "exit 3"), kubeconfig="k")
    with pytest.raises(AnsibleError, match="the cluster of k returned an unusable answer: "):
        looked_up(kubectl=fake_kubectl(tmp_path, "echo '{'"), kubeconfig="k")
