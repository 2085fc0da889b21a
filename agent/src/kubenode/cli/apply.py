# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Converge this node with the manifests, once.

Prints each step as kubenode plan does. If the kernel refuses a step, the error is reported and the other steps are
done. Undesired real servers get weight 0. They are removed at once if they have no connections, or else by the next
kubenode apply, or by the agent.

The agent does the same continuously: this command is not needed where the agent runs.

Exit status: 0 done (or, with --check, nothing to do), 2 with --check: something to do, 1 a step failed or an item has
another owner, 64 wrong usage.
"""

from __future__ import annotations

import argparse


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add this command's arguments."""
    from .parser import add_config, add_objects, add_run_dir

    add_objects(parser)
    add_config(parser)
    parser.add_argument("--check", action="store_true", help="only print the steps")
    parser.add_argument(
        "--adopt", action="store_true", help="take over unowned items with the agent's names (kube-proxy's)"
    )
    add_run_dir(parser)


def run(options: argparse.Namespace) -> int:
    """Converge the node once."""
    from .desired import complain, this_node, wanted
    from .oneshot import Pass, show

    cluster, _source = this_node(options)
    with Pass(options.run_dir, cluster.config.graceful_max_duration, options.adopt) as work:
        cluster.resume(work.holders())
        want = work.spelled(wanted(cluster), cluster.config.rules_backend)
        prepared = work.plan(want)
        show(prepared, "text")
        conflicts = prepared.conflicts
        for conflict in conflicts:
            complain(conflict.describe())
        if options.check:
            return 2 if prepared.steps or prepared.adopted else 0
        work.remember_holders(cluster.take_holders())
        failed = work.execute(prepared).failed
        if work.draining and not failed:
            # these accept no new connections, so those without connections can be removed
            again = work.plan(want)
            show(again, "text")
            failed = work.execute(again).failed
            if work.draining:
                complain(f"{work.draining} real servers still have connections and keep weight 0 until these end")
    for failure in failed:
        complain(f"{failure.step.describe()}: {failure.message}")
    return 1 if failed or conflicts else 0
