# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Agent of the unit tests: real, with its services, but without a pass during a test.

The test sets its clock.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from kubenode.daemon.agent import Agent
from kubenode.daemon.inputs.desired_state import Options
from kubenode.daemon.pass_result import PassResult
from kubenode.daemon.watchers_and_outputs import WatchersAndOutputs
from kubenode.log import Log
from kubenode.paths import SOCKET

NOTHING = PassResult(True, [], [], [], [], 0.1, {})
CONFIG = {
    "apiVersion": "kubeproxy.config.k8s.io/v1alpha1",
    "kind": "KubeProxyConfiguration",
    "ipvs": {"minSyncPeriod": "30s"},  # no pass during a test
}

LINES: list[str] = []  # of the log


class Clock:
    """Seconds."""

    now = 10_000.0


@pytest.fixture
def agent(tmp_path: Path) -> Iterator[Agent]:
    (tmp_path / "config.yaml").write_text(json.dumps(CONFIG))
    (tmp_path / "manifests").mkdir()
    options = Options(
        str(tmp_path / "config.yaml"), True, str(tmp_path / "manifests"), str(tmp_path), str(tmp_path), "n1", False
    )
    idle = Agent(options, Log(write=LINES.append, journal=True))
    idle.passes.desired.configure()
    LINES.clear()
    parts = WatchersAndOutputs(idle.passes, str(tmp_path / SOCKET), idle.lifecycle.fail)
    idle.lifecycle.parts = parts
    yield idle
    parts.close()
    idle.passes.loop.close()


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """Replace the monotonic clock of this process by one that the test sets."""
    replaced = Clock()
    monkeypatch.setattr(time, "monotonic", lambda: replaced.now)
    return replaced
