# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The role kubeadm creates a cluster on empty nodes, removes it again, and never makes a second one."""

from __future__ import annotations

from support.fakes import kubeadm as fake_kubeadm
from support.kubeadm.answers import GOLDEN
from support.kubeadm.cases import JOIN, JOIN_CONTROL_PLANE
from support.kubeadm.site import ENDPOINT, HASH, KEY, NODES, TOKEN, Site


def _assert_documents_are_accepted(site: Site) -> None:
    """Assert that a real kubeadm accepts the documents, and that they hold the secrets of the task."""
    assert fake_kubeadm.accepted(list(site.documents("n1", "init").values()))
    for node, sample in (("n2", JOIN_CONTROL_PLANE), ("w1", JOIN)):
        joined = site.documents(node, "join")["JoinConfiguration"]
        assert joined["discovery"] == {
            "bootstrapToken": {"apiServerEndpoint": ENDPOINT, "token": TOKEN, "caCertHashes": [HASH]}
        }
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


def _assert_secrets_stayed_in_kubeadm(site: Site, output: str) -> None:
    """Assert that only kubeadm got the secrets, and that its commands were the expected ones."""
    calls = {node: site.calls(node) for node in NODES}
    for secret in (TOKEN, KEY):
        assert secret not in output
        assert secret not in str(calls)
        assert [path for path in site.left() if secret in path.read_text(errors="replace")] == []
    assert "kubeadm init --config /dev/stdin --skip-token-print" in calls["n1"]
    assert calls["n1"][-1].endswith("taint nodes n1 node-role.kubernetes.io/control-plane-")
    steps = ["kubeadm token create", "kubeadm config validate", "kubeadm join", "kubeadm token delete"]
    assert [call.split(" --")[0] for call in calls["w1"]] == [*steps[:3], f"{steps[3]} {TOKEN.partition('.')[0]}"]
    steps[1:1] = ["kubeadm init phase upload-certs"]
    assert [call.split(" --")[0] for call in calls["n2"]] == [*steps[:4], f"{steps[4]} {TOKEN.partition('.')[0]}"]


def test_cluster_is_created_joined_and_reset(site: Site) -> None:
    variables = {"kubeadm_cni_manifest": str(GOLDEN / "manifest.yaml"), "kubeadm_untaint_control_plane": True}

    # Check mode comes from the command line or from the play.
    for options, play, nodes in ((["--check", "--diff"], "play.yml", 3), (["--limit", "n2"], "check.yml", 1)):
        dry = site.run(*options, play=play, **variables)
        assert dry.status == 0, dry.text
        assert all(dry.changed.values()), dry.changed
        assert ("kind: JoinConfiguration" in dry.text) == ("--diff" in options)
        assert site.files() == []
        assert [call for node in NODES for call in site.calls(node)] == [
            "kubeadm config validate --config /dev/stdin"
        ] * nodes

    first = site.run("--diff", "-vvv", **variables)
    assert first.status == 0, first.text
    assert site.files() == ["n1/kubernetes/admin.conf", *(f"{node}/kubernetes/kubelet.conf" for node in NODES)]

    _assert_documents_are_accepted(site)
    _assert_secrets_stayed_in_kubeadm(site, first.text)

    for options, nodes in (([], NODES), (["--check", "--limit", "n2,w1"], NODES[1:])):
        again = site.run(*options, **variables)
        assert again.status == 0, again.text
        assert again.changed == dict.fromkeys(nodes, 0)
        assert not any(
            word in call for node in NODES for call in site.calls(node) for word in (" init", " join", " token")
        )

    reset = site.run(tasks_from="reset")
    assert reset.status == 0, reset.text
    assert site.files() == []
    assert site.run("--limit", "n2,w1", tasks_from="reset").changed == {"n2": 0, "w1": 0}


def test_cluster_grows_one_node_at_a_time(site: Site) -> None:
    for node in ("n1", "w1"):
        one = site.run("--limit", node)
        assert one.status == 0, one.text
        assert list(one.changed) == [node]
    assert site.files() == ["n1/kubernetes/admin.conf", "n1/kubernetes/kubelet.conf", "w1/kubernetes/kubelet.conf"]


def test_reordered_inventory_creates_no_second_cluster(cluster: Site) -> None:
    text = (cluster.directory / "inventory.yml").read_text()
    (cluster.directory / "inventory.yml").write_text(
        text.replace("n1: {}", "x: {}").replace("n2: {}", "n1: {}").replace("x: {}", "n2: {}")
    )
    for options in ([], ["--check"]):
        refused = cluster.run("--limit", "n2", *options)
        assert refused.status == 2
        assert "n1: there is a cluster already, and kubeadm init on n2 would make another one." in refused.text
    assert cluster.files() == ["n1/kubernetes/admin.conf", "n1/kubernetes/kubelet.conf"]


def test_check_mode_dry_runs_the_cni_manifest(cluster: Site) -> None:
    """A server-side dry run creates no namespace, so it cannot check objects within that namespace."""
    variables = {"kubeadm_cni_manifest": str(GOLDEN / "manifest.yaml")}
    dry = cluster.run("--limit", "n1", "--check", **variables)
    assert (dry.status, dry.changed) == (0, {"n1": 1}), dry.text
    assert cluster.run("--limit", "n1", **variables).changed == {"n1": 1}
    assert cluster.run("--limit", "n1", "--check", **variables).changed == {"n1": 0}
