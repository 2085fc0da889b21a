# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Probe an agent with 100 services while abusive clients use its health and metrics servers. Runs on the node.

Arguments: probes, abusive clients. Standard output: what http_abuse.py prints.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from agent import Agent

PORTS = ("10256", "10249")  # health, metrics


def main() -> None:
    """Measure."""
    agent = Agent(100, 5)
    agent.write_changing()
    agent.start()
    try:
        script = Path(__file__).with_name("http_abuse.py")
        subprocess.run([sys.executable, str(script), "127.0.0.1", *PORTS, *sys.argv[1:]], check=True)
    finally:
        agent.stop()
        agent.clean()


if __name__ == "__main__":
    main()
