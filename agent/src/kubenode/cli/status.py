# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Ask the running agent how it is.

Prints what it waits for, if it does; what the last full comparison did; what is draining; and everything that could not be used or
done, with a name and a reason. With --wait it waits until the node is as wanted: for scripts that have just started or reloaded
the agent. With --sync the agent compares everything at once.

Exit status: 0 the node is as wanted, 3 it is not (yet), 1 the agent cannot be asked, 64 wrong usage.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable
from typing import Any

_MOST = 20  # lines of one kind


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add this command's arguments."""
    from .parser import add_run_dir

    parser.add_argument("--format", choices=("text", "json"), default="text", help="default: %(default)s")
    parser.add_argument(
        "--wait", metavar="SECONDS", type=seconds, default=0.0, help="wait until the node is as wanted, at most so long"
    )
    parser.add_argument("--sync", action="store_true", help="compare everything with the kernel now")
    add_run_dir(parser)


def run(options: argparse.Namespace) -> int:
    """Ask."""
    import json
    import os
    import time

    from ..engine.errors import EngineError
    from ..paths import SOCKET
    from .ask import question

    socket = os.path.join(options.run_dir, SOCKET)
    end = time.monotonic() + options.wait
    command = "sync" if options.sync else "status"
    while True:
        left = end - time.monotonic()
        try:
            answer = question(socket, command)
            if answer["converged"] or left <= 0:
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


def seconds(text: str) -> float:
    """Read a span of time; its name is in the message about what is none."""
    found = float(text)
    if not found >= 0:
        raise ValueError  # "not a number" is a number of Python's
    return found


def _lines(answer: dict[str, Any]) -> list[str]:
    lines = [f"node {answer['node']}, agent {answer['version']}, pid {answer['pid']}"]
    if answer["waiting"]:
        lines.append(f"waiting: {answer['waiting']}")
    lines.append(("as wanted: " if answer["converged"] else "not as wanted: ") + answer["summary"])
    last = answer["last_full_sync"]
    if last:
        lines.append(f"last full comparison: {last['steps']} steps done, {last['failed']} failed, in {last['seconds']} s")
        lines.extend(_first(f"  drift healed: {text}" for text in last["drift"]))
    lines.extend(_first(f"draining for {item['seconds']} s: {item['real_server']}" for item in answer["draining"]))
    lines.extend(f"problem: {item['text']}" for item in answer["problems"])
    return lines


def _first(lines: Iterable[str]) -> list[str]:
    """Return as many lines as anybody wants to read, and how many more there are."""
    found = list(lines)
    return found if len(found) <= _MOST else [*found[:_MOST], f"  ... and {len(found) - _MOST} more (--format json has all)"]
