# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Code that a start of the agent loads: what it may not need is loaded later.

Each of these modules costs some milliseconds of every start, or a MiB of every agent.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[4]
# Module -> who needs it.
LATE = {
    "h11": "the first client, or the first second after the start",
    "hashlib": "a source of objects with TLS",
    "kubenode.engine.kernel.nftables": "rules in nftables",
    "kubenode.sources.kubernetes": "a source of objects with an API server",
    "ssl": "a source of objects with TLS",
}
SCRIPT = f"""
import sys
sys.path.insert(0, {str(ROOT / "agent/src")!r})
import kubenode.daemon.agent, kubenode.daemon.watchers_and_outputs, kubenode.daemon.outputs.history
print(*sys.modules)
"""


def test_start_loads_only_what_every_agent_needs() -> None:
    done = subprocess.run([sys.executable, "-IS", "-c", SCRIPT], capture_output=True, text=True, check=True)
    loaded = done.stdout.split()
    assert "kubenode.engine.proxy.planning" in loaded
    assert [name for name in loaded if name in LATE] == []
