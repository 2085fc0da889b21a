# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Failures in the role kubeadm: the message, the state that is left, and a second try that succeeds."""

from __future__ import annotations

import shutil

import pytest
from support.kubeadm.answers import said
from support.kubeadm.site import TOKEN, Site


@pytest.mark.parametrize("failure", ["init-preflight", "init-config"])
def test_kubeadm_that_failed_in_preflight_can_run_again(site: Site, failure: str) -> None:
    (site.directory / "n1/fail").write_text(failure)
    failed = site.run("--limit", "n1")
    assert failed.status == 2
    assert "kubeadm init failed on n1 before it changed anything: " in failed.text
    assert " ".join(said(failure, "stderr").split()[-8:]) in failed.text
    assert site.files() == []
    (site.directory / "n1/fail").unlink()
    assert site.run("--limit", "n1").status == 0


def test_kubeadm_that_failed_half_way_is_reported_by_next_run(site: Site) -> None:
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
    assert "An earlier kubeadm did not finish on n1." in refused.text
    assert site.calls("n1") == []

    assert site.run("--limit", "n1", tasks_from="reset").status == 0
    assert site.run("--limit", "n1").status == 0


def test_failed_join_shows_the_reason_and_no_secret(cluster: Site) -> None:
    (cluster.directory / "w1/fail").write_text("join-preflight")
    failed = cluster.run("--limit", "w1", "-vvv")
    assert failed.status == 2
    assert "kubeadm join failed on w1 before it changed anything: " in failed.text
    assert "error execution phase preflight" in failed.text
    assert TOKEN not in failed.text
    assert cluster.calls("w1")[-1].startswith(f"kubeadm token delete {TOKEN.partition('.')[0]} ")


def test_join_succeeds_after_its_token_has_expired(cluster: Site) -> None:
    (cluster.directory / "w1/expired").touch()
    joined = cluster.run("--limit", "w1")
    assert joined.status == 0, joined.text
    assert "w1/kubernetes/kubelet.conf" in cluster.files()


def test_invalid_settings_fail_before_any_change(site: Site) -> None:
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
