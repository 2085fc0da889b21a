# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Make this node as the manifests say, once.

Prints what it does as kubenode plan does. A step that the kernel refuses is reported and the others are done. Real servers that
are no longer wanted get weight 0; they are removed at once if they have no connections, or else by the next kubenode apply, or by
the agent.

The agent does the same continuously; there is no need to use this command where it runs.

Exit status: 0 done (or, with --check, nothing to do), 2 with --check: something to do, 1 something failed or is somebody else's,
64 wrong usage.
"""

from __future__ import annotations

import argparse


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add this command's arguments."""
    from .parser import add_config, add_objects, add_run_dir

    add_objects(parser)
    add_config(parser)
    parser.add_argument("--check", action="store_true", help="only print what would be done")
    parser.add_argument(
        "--adopt", action="store_true", help="take over what has the right name and belongs to nobody (kube-proxy's)"
    )
    add_run_dir(parser)


def run(options: argparse.Namespace) -> int:
    """Apply."""
    from .desired import complain, this_node, wanted
    from .oneshot import Pass, show

    found, _source = this_node(options)
    want = wanted(found)
    with Pass(options.run_dir, found.config.graceful_max_duration, options.adopt) as work:
        prepared = work.plan(want)
        show(prepared, "text")
        conflicts = prepared.conflicts
        for conflict in conflicts:
            complain(conflict.describe())
        if options.check:
            return 2 if prepared.steps or prepared.adopted else 0
        failed = work.execute(prepared).failed
        if work.draining and not failed:
            # they take no new connections any more: those without any can go
            again = work.plan(want)
            show(again, "text")
            failed = work.execute(again).failed
            if work.draining:
                complain(f"{work.draining} real servers have connections and stay with weight 0 until these have ended")
    for failure in failed:
        complain(f"{failure.step.describe()}: {failure.message}")
    return 1 if failed or conflicts else 0
