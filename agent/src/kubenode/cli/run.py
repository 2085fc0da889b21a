# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Run the node's service proxy.

Watches Services and EndpointSlices, in the Kubernetes API or in a directory of manifests as configured. Reconciles
virtual servers, sets, rules and addresses in the layout of kube-proxy's ipvs mode. Waits for a missing configuration,
missing objects and missing kernel modules; systemctl status names them.

Signals
  SIGHUP   read configuration and manifests again, compare everything with the kernel
  SIGUSR1  write the whole state to the log
  SIGTERM  end; the kernel's state stays, and balancing continues

When the loop hangs, systemd's watchdog sends SIGABRT: then the log says where it hung.

Exit status: 0 ended by a signal, 1 cannot run, 64 wrong usage.
"""

from __future__ import annotations

import argparse


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add this command's arguments."""
    from ..log import FORMATS, LEVELS
    from .parser import add_config, add_run_dir, add_state_dir

    add_config(parser)
    parser.add_argument(
        "--manifests",
        metavar="DIR",
        default="",
        help="read the objects from the manifests in this directory; overrides the configuration",
    )
    parser.add_argument(
        "--adopt",
        action="store_true",
        help="take over unowned items with the agent's names (kube-proxy's) at the start",
    )
    parser.add_argument("--log-level", choices=tuple(LEVELS), default="info", help="default: %(default)s")
    parser.add_argument("--log-format", choices=FORMATS, default="text", help="default: %(default)s")
    add_run_dir(parser)
    add_state_dir(parser)


def run(options: argparse.Namespace) -> int:
    """Run the daemon."""
    import faulthandler
    import gc

    faulthandler.enable()
    gc.disable()  # the first load makes a million objects that stay; the agent enables it again
    from ..daemon.agent import Agent
    from ..daemon.inputs.desired_state import Options
    from ..log import Log
    from ..paths import CONFIG

    agent = Agent(
        Options(
            config=options.config or CONFIG,
            config_required=options.config is not None,
            manifests=options.manifests,
            run=options.run_dir,
            state=options.state_dir,
            node=options.node or "",
            adopt=options.adopt,
        ),
        Log(options.log_level, options.log_format),
    )
    return agent.run()
