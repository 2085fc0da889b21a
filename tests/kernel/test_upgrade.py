# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Upgrade and downgrade between two versions: each reads kernel state, ledger, snapshot, configuration and history.

Nothing is released. So the older version is an earlier commit, packed with `git archive COMMIT agent/src
plugins/module_utils | xz -9e`: a clone need not have it. Put the last release there once there is one. Until then, a
change of a file format replaces the commit: no version reads formats that no release has written.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.agent.process import NODE, ROOT, AgentProcess, dump
from support.clusters import objects
from support.fakes.apiserver import FakeApiServer
from support.processes.namespace import fresh, sh

OLDER = ROOT / "tests/golden/older_agent.tar.xz"
MODULES = ("ip_vs", "ip_vs_rr", "ip_vs_wrr", "nf_conntrack", "ip_set", "xt_set", "xt_ipvs", "xt_physdev", "dummy")
WEB = "10.96.0.10"


class VersionedAgent(AgentProcess):
    """An agent whose program is that of one source tree."""

    sources = ROOT

    def environment(self) -> dict[str, str]:
        """Environment of the agent and the command line of the chosen version."""
        return {**super().environment(), "PYTHONPATH": str(self.sources / "agent/src")}

    def run_version(self, sources: Path) -> None:
        """Replace the running agent by one of this source tree, as an upgrade does."""
        if self.process is not None:
            assert self.stop() == 0
        self.sources = sources
        where = [sys.executable, "-c", "import kubenode; print(kubenode.__file__)"]
        imported = subprocess.run(where, env=self.environment(), capture_output=True, text=True, check=True).stdout
        assert imported.startswith(str(sources / "agent/src"))
        self.start("--manifests", "")

    def passes(self) -> int:
        """Return how many lines ``kubenode history`` of this version prints."""
        return len(self.command("history", "--state-dir", str(self.state)).stdout.splitlines())


@pytest.fixture(scope="module")
def older(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the source tree of the older version."""
    target = tmp_path_factory.mktemp("older")
    subprocess.run(["tar", "--extract", "--xz", "--directory", target, "--file", OLDER], check=True)
    return target


@pytest.fixture
def api() -> Iterator[FakeApiServer]:
    subprocess.run(["modprobe", "-a", *MODULES], check=True)
    fresh()
    sh("ip", "link", "set", "lo", "up")
    server = FakeApiServer()
    server.put({"apiVersion": "v1", "kind": "Node", "metadata": {"name": NODE}, "status": {"addresses": []}})
    server.put(objects.service("web", [WEB], [objects.port(80, "http")]))
    ends = [objects.endpoint(f"10.244.1.{number}", NODE) for number in (1, 2)]
    server.put(objects.piece("web", ends, [objects.port(8080, "http")]))
    yield server
    server.close()


@pytest.fixture
def agent(tmp_path: Path, api: FakeApiServer) -> Iterator[VersionedAgent]:
    process = VersionedAgent(tmp_path)
    process.use_api(api.url, {"clusterCIDR": "10.244.0.0/16", "ipvs": {"scheduler": "wrr"}})
    yield process
    process.close()


@pytest.mark.parametrize("is_upgrade", [True, False], ids=["upgrade", "downgrade"])
def test_next_version_keeps_what_the_other_wrote(
    agent: VersionedAgent, api: FakeApiServer, older: Path, is_upgrade: bool
) -> None:
    first, second = (older, ROOT) if is_upgrade else (ROOT, older)
    agent.run_version(first)
    before, passes = dump(), agent.passes()
    assert f"-A -t {WEB}:80 -s wrr" in before["ipvs"]

    agent.run_version(second)  # kernel state, ledger and configuration
    assert agent.ask("status")["last_full_sync"]["steps"] == 0
    assert dump() == before
    assert agent.passes() > passes

    agent.stop()
    snapshots = [path for path in agent.state.iterdir() if path.is_file()]
    assert snapshots
    for path in snapshots:
        path.unlink()
    agent.run_version(first)
    api.close()
    agent.run_version(second)  # the snapshot, which the first has written
    assert dump() == before
    assert any("are restored from" in problem["text"] for problem in agent.ask("status")["problems"])

    agent.stop()  # the ledger has all items of both
    agent.command("cleanup", "--run-dir", str(agent.run))
    after = dump()
    assert (after["ipvs"], "kube-ipvs0" in after["links"], "KUBE-" in after["iptables"] + after["ipset"]) == (
        "", False, False
    )  # fmt: skip
