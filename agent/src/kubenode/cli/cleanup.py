# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Remove exactly what the agent has made on this node.

The ledger says what that is: virtual servers, sets, chains and jumps of both families, addresses and kube-ipvs0. What others have
made stays as it is, byte for byte. Connections through the removed virtual servers end. Sysctls that the agent has changed since the last
boot, and nobody since, have their former values again, unless a task with the module sysctls wants them for good.

With --forget nothing is removed: everything goes on as it is, and belongs to nobody from then on. That is for kube-proxy's return, which takes
over by its names what it finds.

Stop the agent first (systemctl stop kubenode-agent): a running one would make everything anew.

Exit status: 0 all removed (or, with --check, nothing to do), 2 with --check: something to do, 1 something could not be removed,
64 wrong usage.
"""

from __future__ import annotations

import argparse


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add this command's arguments."""
    from .parser import add_run_dir

    parser.add_argument("--check", action="store_true", help="only print what would be removed")
    parser.add_argument("--forget", action="store_true", help="leave everything in place, and strike it out of the ledger")
    add_run_dir(parser)


def run(options: argparse.Namespace) -> int:
    """Clean up."""
    import os

    from ..daemon.control import answers
    from ..engine.errors import EngineError
    from ..paths import SOCKET
    from .desired import complain
    from .oneshot import Pass, show

    socket = os.path.join(options.run_dir, SOCKET)
    if not options.check and answers(socket):
        raise EngineError(f"the agent is running (it answers at {socket}) and would make everything anew: stop it first")
    with Pass(options.run_dir) as work:
        if options.forget:
            forgotten = work.forget(only_count=options.check)
            print(f"{forgotten} items {'would be' if options.check else 'are'} left in place and forgotten")
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
