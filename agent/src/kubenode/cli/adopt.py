# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Let the agent take over unowned items with its names, once.

Such items were left by kube-proxy, or by the agent itself before its ledger was removed. The agent takes them over with
its next full comparison: at its start, or soon if it runs (at once with kubenode status --sync). Desired items become
the agent's; the others are removed. After that comparison the agent leaves unowned items alone again. The ledger keeps
the request until a reboot.

Exit status: 0 requested, 1 the ledger cannot be written, 64 wrong usage.
"""

from __future__ import annotations

import argparse


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add this command's arguments."""
    from .parser import add_run_dir

    add_run_dir(parser)


def run(options: argparse.Namespace) -> int:
    """Request the takeover."""
    from .oneshot import Pass

    with Pass(options.run_dir) as work:
        work.ask_adoption()
    return 0
