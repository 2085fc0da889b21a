# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Fuzzing of one target: what it leaves behind."""

from __future__ import annotations

import argparse
import importlib
import sys
from pathlib import Path

import pytest


def test_files_of_a_target_are_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", [*sys.path])  # the program adds to it
    run = importlib.import_module("fuzz.run")
    memory, temporary = tmp_path / "memory", tmp_path / "temporary"
    memory.mkdir()
    temporary.mkdir()
    monkeypatch.setattr(run, "MEMORY", str(memory))
    monkeypatch.setenv("TMPDIR", str(temporary))
    result = run.fuzz("manifests", argparse.Namespace(cache=tmp_path, seed=1, corpus=None), 0.1)
    assert (result["problem"], result["executions"] > 0) == ("", True)
    assert [*memory.iterdir(), *temporary.iterdir()] == []
