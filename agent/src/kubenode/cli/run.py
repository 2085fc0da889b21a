# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Be the node's service proxy.

Follows Services and EndpointSlices, in the Kubernetes API or in a directory of manifests as the configuration says, and keeps virtual
servers, sets, rules and addresses as kube-proxy's ipvs mode has them. Whatever is missing (configuration, objects, kernel modules) is
waited for, and said in systemctl status.

Signals
  SIGHUP   read configuration and manifests again, compare everything with the kernel
  SIGUSR1  write the whole state to the log
  SIGTERM  end; what the kernel holds stays in place and goes on balancing

When the loop hangs, systemd's watchdog sends SIGABRT: then the log says where it hung.

Exit status: 0 ended by a signal, 1 cannot run at all, 64 wrong usage.
"""

from __future__ import annotations

import argparse


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add this command's arguments."""
    from ..log import FORMATS, LEVELS
    from ..paths import STATE
    from .parser import add_config, add_run_dir

    add_config(parser)
    parser.add_argument(
        "--manifests",
        metavar="DIR",
        default="",
        help="objects come from the manifests in this directory, whatever the configuration says",
    )
    parser.add_argument(
        "--adopt", action="store_true", help="take over what has the right name and belongs to nobody (kube-proxy's)"
    )
    parser.add_argument("--log-level", choices=tuple(LEVELS), default="info", help="default: %(default)s")
    parser.add_argument("--log-format", choices=FORMATS, default="text", help="default: %(default)s")
    add_run_dir(parser)
    parser.add_argument("--state-dir", metavar="DIR", default=STATE, help="what outlives a reboot (default: %(default)s)")


def run(options: argparse.Namespace) -> int:
    """Run the daemon."""
    import faulthandler
    import gc

    faulthandler.enable()
    gc.disable()  # the first load makes a million objects that stay; the agent enables it again
    from ..daemon.agent import Agent
    from ..daemon.wanted import Options
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
