# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The playbook verify writes a report when no node answers.

The report has the nodes of all batches, and only those of the limit. The last runs are kept.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from support.playbooks import run_playbook

ROOT = Path(__file__).parents[2]
NODES = ["n1", "n2", "n3"]


@pytest.fixture
def site(tmp_path: Path) -> Path:
    hosts = {name: {"ansible_host": "127.0.0.1", "ansible_port": 1} for name in NODES}
    (tmp_path / "inventory.yml").write_text(json.dumps({"all": {"hosts": hosts}}))
    return tmp_path


def play(site: Path, *options: str) -> subprocess.CompletedProcess[str]:
    """Run the playbook."""
    return run_playbook(
        ["-i", "inventory.yml", "kubenode.ipvs.verify", *options],
        site,
        {**os.environ, "PWD": str(site), "ANSIBLE_COLLECTIONS_PATH": str(ROOT / "collection")},
    )


def verify(site: Path, *options: str) -> tuple[int, dict[str, Any]]:
    """Run the playbook; return its exit status and the report."""
    done = play(site, *options)
    report = site / "kubenode-report/fleet.json"
    assert report.exists(), done.stdout + done.stderr
    assert (site / "kubenode-report/fleet.html").read_text().startswith("<!DOCTYPE html>")
    return done.returncode, json.loads(report.read_text())


def test_batches_end_with_all_nodes_in_one_report(site: Path) -> None:
    status, report = verify(site, "-e", "kubenode_serial=2")
    assert status == 0
    assert [(node["name"], node["verdict"]) for node in report["nodes"]] == [(name, "unreachable") for name in NODES]
    assert "Connection refused" in report["nodes"][2]["checks"][0]["lines"][0]
    (kept,) = (site / "kubenode-report/runs").iterdir()
    assert json.loads(kept.read_text())["nodes"] == report["nodes"]


def test_report_has_only_nodes_of_the_limit(site: Path) -> None:
    status, report = verify(site, "--limit", "n2", "--tags", "agent")
    assert status == 0
    assert [node["name"] for node in report["nodes"]] == ["n2"]


def test_strict_fails_after_all_nodes_are_checked(site: Path) -> None:
    status, report = verify(site, "-e", "kubenode_serial=1", "-e", "kubenode_strict=true")
    assert status == 2
    assert all("Connection refused" in node["checks"][0]["lines"][0] for node in report["nodes"])


def test_last_runs_are_kept_and_compared(site: Path) -> None:
    runs = site / "kubenode-report/runs"
    runs.mkdir(parents=True)
    (runs / "notes.json").write_text("not a run")
    former = {"name": "n1", "verdict": "ok", "checks": [{"name": "node", "verdict": "ok", "lines": []}]}
    for day in (20, 21, 22):
        text = json.dumps({"time": f"2026-11-{day}T00:00:00Z", "nodes": [former]})
        (runs / f"202611{day}T000000Z.json").write_text(text)
    (runs / "20261123T000000Z.json").write_text(text[:40])
    status, report = verify(site, "-e", "kubenode_keep_runs=3", "--limit", "n1")
    assert status == 0
    assert report["changes"]["since"] == "2026-11-22T00:00:00Z"
    assert [(node["name"], node["before"]) for node in report["changes"]["nodes"]] == [("n1", "ok")]
    page = (site / "kubenode-report/fleet.html").read_text()
    assert "kept run 20261123T000000Z.json cannot be read" in page
    assert all(f"2026-11-{day}T00:00:00Z" in page for day in (20, 21, 22))
    newest, *others = sorted((path.name for path in runs.iterdir()), reverse=True)[1:]
    assert others == ["20261123T000000Z.json", "20261122T000000Z.json"]
    assert newest == report["time"].replace("-", "").replace(":", "") + ".json"
    assert (runs.stat().st_mode & 0o777, (runs / newest).stat().st_mode & 0o777) == (0o750, 0o640)


def test_wrong_number_of_runs_removes_none(site: Path) -> None:
    done = play(site, "-e", "kubenode_keep_runs=few", "--limit", "n1")
    assert done.returncode == 2
    assert "kubenode_keep_runs is few, expected a number from 1 to 9999" in done.stdout + done.stderr
    assert not (site / "kubenode-report").exists()


def test_agent_in_a_pod_is_asked_by_kubectl(site: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    flow = {"flow": "tcp node -> 10.96.0.1:443", "verdict": "arrives", "summary": "delivered", "fault": None}
    answers = {"status": [3, "- virtual server"], "check": [0, ""], "plan": [2, "+ virtual server"]}
    cluster = {
        "pods": {"kube-n1": ["kubenode-agent-x"]},
        "answers": {**answers, "explain": [0, json.dumps(flow)]},
    }
    (site / "pods.json").write_text(json.dumps(cluster))
    monkeypatch.setenv("FAKE_PODS", str(site / "pods.json"))
    given = {
        "ansible_connection": "local",
        "ansible_python_interpreter": sys.executable,
        "agent_method": "daemonset",
        "agent_kubectl": [sys.executable, str(ROOT / "tests/support/fakes/kubectl_exec")],
        "agent_node_name": "kube-{{ inventory_hostname }}",
        "kubenode_become": False,
        "verify_flows": [{"destination": "10.96.0.1", "port": 443}],
    }
    status, report = verify(site, "-e", json.dumps(given), "--limit", "n1,n2", "--tags", "agent")
    assert status == 0
    checks = {
        node["name"]: {check["name"]: (check["verdict"], check["lines"]) for check in node["checks"]}
        for node in report["nodes"]
    }
    assert checks["n1"]["agent installed"] == ("ok", [])
    assert checks["n1"]["agent runs"] == ("drift", ["- virtual server"])
    assert checks["n1"]["state in the kernel"] == ("drift", ["+ virtual server"])
    assert checks["n1"]["connections"][0] == "ok"
    missing = "the DaemonSet kubenode-agent has 0 pods on the Kubernetes node kube-n2, expected 1"
    assert checks["n2"]["agent installed"] == ("failed", [missing])
    assert checks["n2"]["agent runs"][0] == "unknown"
