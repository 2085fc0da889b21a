# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Remove the items that the agent owns on this node.

The ledger lists them: virtual servers, sets, chains and jumps of both families, addresses and kube-ipvs0. Items of
other owners and unowned items stay unchanged. Connections through the removed virtual servers end. A sysctl that the
agent has changed since the last boot gets its original value again, unless another process has changed it since, or the
module sysctls owns it.

With --forget nothing is removed: all items stay and become unowned. Use it before kube-proxy returns: kube-proxy takes
over existing items by their names.

With --after MODE it removes the items once kube-proxy serves this node in its iptables or nftables mode. It waits for
kube-proxy's rules (--wait). kube-proxy in iptables mode gets all new connections then, and IPVS keeps the established
ones until they end, or for the time of --drain. kube-proxy in nftables mode removes all virtual servers when it starts,
so there is nothing to drain. Chains and jumps that kube-proxy uses stay, and so do the sysctls. The last line is the
number of established connections that were cut.

Stop the agent first (systemctl stop kubenode-agent): a running agent would create all items again.

Exit status: 0 all removed (or, with --check, nothing to do), 2 with --check: something to do, 1 at least one item could
not be removed, 64 wrong usage.
"""

from __future__ import annotations

import argparse


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add this command's arguments."""
    from ..engine.proxy.handover import MODES
    from .parser import add_run_dir, seconds

    parser.add_argument("--check", action="store_true", help="only print the steps")
    choice = parser.add_mutually_exclusive_group()
    choice.add_argument(
        "--forget", action="store_true", help="leave all items in place, and delete them from the ledger"
    )
    choice.add_argument(
        "--after", choices=MODES, metavar="MODE", help="once kube-proxy serves in this mode: iptables or nftables"
    )
    parser.add_argument(
        "--wait",
        type=seconds,
        metavar="SECONDS",
        default=300.0,
        help="with --after, how long kube-proxy may take until its rules exist (default: 300)",
    )
    parser.add_argument(
        "--drain",
        type=seconds,
        metavar="SECONDS",
        default=300.0,
        help="with --after iptables, how long established connections may take to end (default: 300)",
    )
    add_run_dir(parser)


def run(options: argparse.Namespace) -> int:
    """Remove the agent's items, or with --forget only its claims."""
    import os

    from ..daemon.outputs.control import answers
    from ..engine.errors import EngineError
    from ..paths import SOCKET
    from .desired import complain
    from .oneshot import Pass, show

    socket = os.path.join(options.run_dir, SOCKET)
    if not options.check and answers(socket):
        raise EngineError(
            f"the agent is running (it answers at {socket}) and would create all items again: stop it first"
        )
    if options.after and not options.check:
        from .handover import Limits, remove

        return remove(options.run_dir, options.after, Limits(options.wait, options.drain))
    with Pass(options.run_dir) as work:
        if options.after:
            from .handover import show_steps

            return show_steps(work, options.after)
        if options.forget:
            forgotten = work.forget(only_count=options.check)
            print(
                f"{forgotten} items {'would be' if options.check else 'are'} left in place and deleted from the ledger"
            )
            return 2 if options.check and forgotten else 0
        prepared, back = work.plan({}, drain=False), work.plan_back()
        for each in (prepared, back):
            show(each, "text")
        if options.check:
            return 2 if prepared.steps or back.steps else 0
        failed = [*work.execute(prepared).failed, *work.give_back(back).failed]
    for failure in failed:
        complain(f"{failure.step.describe()}: {failure.message}")
    return 1 if failed else 0
