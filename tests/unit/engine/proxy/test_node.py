# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Facts that the agent reads about its node."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[4] / "agent/src"


@pytest.mark.parametrize(
    ("says", "knows"),
    [
        ("iptables v1.6.1", "False"),
        ("iptables v1.6.2", "True"),
        ("iptables v1.8.9 (nf_tables)", "True"),
        ("iptables v1.10", "True"),
    ],
)
def test_random_fully_support_is_detected(tmp_path: Path, says: str, knows: str) -> None:
    tool = tmp_path / "iptables"
    tool.write_text(f"#!/bin/sh\necho '{says}'\n")
    tool.chmod(0o755)
    script = "from kubenode.engine.proxy.node import facts; print(facts('n1').random_fully)"
    environment = {"PYTHONPATH": str(SOURCE), "PATH": f"{tmp_path}:{os.environ['PATH']}"}
    done = subprocess.run([sys.executable, "-c", script], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == knows
