# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Print the steps that would converge this node; change nothing.

Reads the manifests, the configuration, the ledger and the kernel's tables, and prints one line for each step, in the
order in which kubenode apply would do it:

  + virtual server tcp 10.96.0.10:53: scheduler rr       to be created
  ~ real server 10.244.1.5:53 of tcp 10.96.0.10:53: …    to be changed, before -> after
  - address 10.96.0.99/32 on kube-ipvs0                  to be removed

A real server with connections gets weight 0. It is removed when its last connection has ended. Items of other owners
and unowned items are left alone; with --adopt, unowned items with the agent's names become the agent's.

Exit status: 0 no steps, 2 at least one step, 1 the plan cannot be made, 64 wrong usage.
"""

from __future__ import annotations

import argparse


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add this command's arguments."""
    from .parser import add_config, add_objects, add_run_dir

    add_objects(parser)
    add_config(parser)
    parser.add_argument(
        "--adopt", action="store_true", help="take over unowned items with the agent's names (kube-proxy's)"
    )
    parser.add_argument("--format", choices=("text", "json"), default="text", help="default: %(default)s")
    add_run_dir(parser)


def run(options: argparse.Namespace) -> int:
    """Print the steps."""
    from .desired import complain, this_node, wanted
    from .oneshot import Pass, show

    cluster, _source = this_node(options)
    with Pass(options.run_dir, cluster.config.graceful_max_duration, options.adopt) as work:
        cluster.resume(work.holders())
        prepared = work.plan(work.spelled(wanted(cluster), cluster.config.rules_backend))
        show(prepared, options.format)
    for conflict in prepared.conflicts:
        complain(conflict.describe())
    return 2 if prepared.steps or prepared.adopted else 0
