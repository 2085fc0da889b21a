# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Agent whose kernel is on paper, with a history: each pass at a moment of its own."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kubenode.daemon.agent import Agent
from kubenode.daemon.inputs.desired_state import Options
from kubenode.daemon.outputs import history
from kubenode.log import Log

from .driver import FakeNode

FIRST = 1_764_000_000_000  # the first moment, in milliseconds since the epoch


class RecordedAgent:
    """Agent with a recorder; ``lines`` are those of its log."""

    def __init__(self, directory: Path, monkeypatch: pytest.MonkeyPatch, most: int = 16 << 20) -> None:
        clock = itertools.count(FIRST, 10)
        monkeypatch.setattr(history, "_now", lambda: next(clock))
        self.now: Callable[[], int] = lambda: next(clock)
        self.lines: list[str] = []
        self.directory = directory / "history"
        (directory / "manifests").mkdir(exist_ok=True)
        document = {"apiVersion": "kubenode.ipvs/v1alpha1", "kind": "AgentConfiguration"}
        (directory / "config.yaml").write_text(json.dumps(document))
        paths = (str(directory / "config.yaml"), True, str(directory / "manifests"), str(directory), str(directory))
        self.passes = Agent(Options(*paths, "n1", False), Log(write=self.lines.append, journal=True)).passes
        self.node = FakeNode()
        paper: Any = self.node
        self.passes.reconciler._node = paper
        self.passes.desired.configure()
        self._most = most
        self.recorder: history.HistoryRecorder | None = None

    def record(self) -> history.HistoryRecorder:
        """Begin the history; return its recorder."""
        self.recorder = history.HistoryRecorder(self.passes, str(self.directory), self._most)
        self.passes.subscribe(self.recorder)
        self.passes.started = FIRST / 1000
        self.recorder.begin("start")
        return self.recorder

    def close(self) -> None:
        """End the history, the ledger and the loop."""
        if self.recorder is not None:
            self.recorder.close()
        self.passes.reconciler.close()
        self.passes.loop.close()

    def put(self, *items: dict[str, Any]) -> None:
        """Change objects, as the source does, and run a pass."""
        if self.recorder is not None:
            self.recorder.use_objects(items, ())
        for item in items:
            self.passes.desired._put(item)
        self.passes._pass(False, "event")

    def want(self) -> dict[str, dict[Any, Any]]:
        """Return a copy of the desired state, without empty kinds."""
        return {kind: dict(items) for kind, items in self.passes.reconciler.want.items() if items}
