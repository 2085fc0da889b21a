# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The playbook verify writes a report when no node answers.

The report has the nodes of all batches, and only those of the limit.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
NODES = ["n1", "n2", "n3"]


@pytest.fixture
def site(tmp_path: Path) -> Path:
    hosts = {name: {"ansible_host": "127.0.0.1", "ansible_port": 1} for name in NODES}
    (tmp_path / "inventory.yml").write_text(json.dumps({"all": {"hosts": hosts}}))
    return tmp_path


def verify(site: Path, *options: str) -> tuple[int, dict[str, Any]]:
    """Run the playbook; return its exit status and the report."""
    done = subprocess.run(
        [Path(sys.executable).with_name("ansible-playbook"), "-i", "inventory.yml", "kubenode.ipvs.verify", *options],
        cwd=site,
        env={**os.environ, "PWD": str(site), "ANSIBLE_COLLECTIONS_PATH": str(ROOT / "collection")},
        check=False,
        capture_output=True,
        text=True,
    )
    report = site / "kubenode-report/fleet.json"
    assert report.exists(), done.stdout + done.stderr
    assert (site / "kubenode-report/fleet.html").read_text().startswith("<!DOCTYPE html>")
    return done.returncode, json.loads(report.read_text())


def test_batches_end_with_all_nodes_in_one_report(site: Path) -> None:
    status, report = verify(site, "-e", "kubenode_serial=2")
    assert status == 0
    assert [(node["name"], node["verdict"]) for node in report["nodes"]] == [(name, "unreachable") for name in NODES]
    assert "Connection refused" in report["nodes"][2]["checks"][0]["lines"][0]


def test_report_has_only_nodes_of_the_limit(site: Path) -> None:
    status, report = verify(site, "--limit", "n2", "--tags", "agent")
    assert status == 0
    assert [node["name"] for node in report["nodes"]] == ["n2"]


def test_strict_fails_after_all_nodes_are_checked(site: Path) -> None:
    status, report = verify(site, "-e", "kubenode_serial=1", "-e", "kubenode_strict=true")
    assert status == 2
    assert all("Connection refused" in node["checks"][0]["lines"][0] for node in report["nodes"])
