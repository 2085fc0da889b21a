# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Show whether the agent runs and the node is converged.

Prints the condition that the agent waits for, if any; the result of the last full comparison; draining real servers;
and every object that could not be used and step that failed, with its name and a reason. With --wait, waits until the
node is converged, for scripts that have just started or reloaded the agent. The wait ends early if the configuration or
the kubeconfig has to be changed first. With --sync, the agent compares everything at once.

Exit status: 0 the node is converged, 3 it is not converged (yet), 1 the agent does not answer, 64 wrong usage.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable
from typing import Any

_MOST = 20  # lines of one kind
_SETTLED = 2.0  # seconds after which a blocked state is final: the operator must act


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add this command's arguments."""
    from .parser import add_run_dir, seconds

    parser.add_argument("--format", choices=("text", "json"), default="text", help="default: %(default)s")
    parser.add_argument(
        "--wait", metavar="SECONDS", type=seconds, default=0.0, help="wait at most SECONDS until the node is converged"
    )
    parser.add_argument("--sync", action="store_true", help="let the agent compare everything with the kernel now")
    add_run_dir(parser)


def run(options: argparse.Namespace) -> int:
    """Print the agent's status."""
    import json
    import os
    import time

    from ..engine.errors import EngineError
    from ..paths import SOCKET
    from .ask import question

    socket = os.path.join(options.run_dir, SOCKET)
    end = time.monotonic() + options.wait
    blocked, blocked_since = "", 0.0
    command = "sync" if options.sync else "status"
    while True:
        left = end - time.monotonic()
        try:
            answer = question(socket, command)
            if answer["converged"] or left <= 0:
                break
            if answer.get("blocked", "") != blocked or not blocked:
                blocked, blocked_since = answer.get("blocked", ""), time.monotonic()
            elif time.monotonic() - blocked_since > _SETTLED:
                break
        except EngineError:
            if left <= 0:
                raise
        time.sleep(min(0.2, max(0.0, left)))
    if options.format == "json":
        print(json.dumps(answer, indent=1))
    else:
        print("\n".join(_lines(answer)))
    return 0 if answer["converged"] else 3


def _lines(answer: dict[str, Any]) -> list[str]:
    lines = [f"node {answer['node']}, agent {answer['version']}, pid {answer['pid']}"]
    if answer["waiting"]:
        lines.append(f"waiting: {answer['waiting']}")
    if answer.get("blocked"):
        lines.append(f"blocked: {answer['blocked']}; fix it; waiting does not help")
    lines.append(("converged: " if answer["converged"] else "not converged: ") + answer["summary"])
    last = answer["last_full_sync"]
    if last:
        lines.append(
            f"last full comparison: {last['steps']} steps done, {last['failed']} failed, in {last['seconds']} s"
        )
        lines.extend(_first(f"  drift healed: {text}" for text in last["drift"]))
    lines.extend(_first(f"draining for {item['seconds']} s: {item['real_server']}" for item in answer["draining"]))
    lines.extend(f"problem: {item['text']}" for item in answer["problems"])
    lines.extend(_first(f"warning: {text}" for text in answer.get("warnings", ())))
    return lines


def _first(lines: Iterable[str]) -> list[str]:
    """Return the first lines of a list, and how many more there are."""
    texts = list(lines)
    return (
        texts
        if len(texts) <= _MOST
        else [*texts[:_MOST], f"  ... and {len(texts) - _MOST} more (--format json has all)"]
    )
