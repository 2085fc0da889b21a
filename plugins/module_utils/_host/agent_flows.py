# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This module util is PRIVATE to the collection. It can change at any time, do not use it from outside.

"""Explanations of flows by the installed agent's command ``kubenode explain``."""

from __future__ import annotations

import json
import re
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Callable

    Run = Callable[[list[str]], tuple[int, str, str]]

# The command's options in its messages, and the module's options for them.
_NAMES = {"--from": "source", "--in-interface": "in_interface", "--netns": "netns", "--node-port": "node_port"}
_NAMES.update({"--objects": "objects", "--port": "port", "--service": "service", "--wait": "wait"})


def explain(run: Run, params: Mapping[str, Any], *, may_probe: bool = True) -> tuple[list[dict[str, Any]], list[str]]:
    """Return the explanations of ``params["flows"]``, and an error for each flow without one.

    ``run`` runs a command, and returns exit status, output and errors.
    """
    explained, wrong = [], []
    command = params["command"]
    program = command if len(command) > 1 else [sys.executable or "/usr/bin/python3", "-IS", *command]
    for number, flow in enumerate(params["flows"]):
        status, output, errors = run([*program, "explain", "--format=json", *words(flow, params, may_probe)])
        answer = _answer(output)
        if answer is not None:
            explained.append(answer)
        else:
            wrong.append(f"flows[{number}]: {_reason(status, errors)}")
    return explained, wrong


def words(flow: Mapping[str, Any], params: Mapping[str, Any], may_probe: bool) -> list[str]:
    """Return the command's arguments for one flow; a value that begins with a dash is still a value.

    Without ``may_probe`` the command sends nothing and adds no table.
    """
    given = {"objects": params["objects"], "config": params["config"], "in-interface": flow["in_interface"]}
    switches = ["--observe"] if params["observe"] else []
    if params["probe"] and may_probe:
        switches.append("--probe")
        given["netns"] = params["netns"]
    elif params["observe"]:
        given["wait"] = params["wait"] if may_probe else 0
    positional = []
    if flow["destination"] is not None:
        address = flow["destination"]
        target = f"[{address}]" if ":" in address else address
        positional = ["--", flow["protocol"] or "tcp", flow["source"], f"{target}:{flow['port']}"]
    else:
        given.update({"service": flow["service"], "port": flow["port"], "node-port": flow["node_port"]})
        given.update({"protocol": flow["protocol"], "from": flow["source"]})
    return [*switches, *(f"--{name}={value}" for name, value in given.items() if value is not None), *positional]


def problem(answer: Mapping[str, Any]) -> str:
    """Return one sentence for a flow that does not arrive or cannot be judged."""
    fault, doubts = answer["fault"], [*answer["doubts"], *answer["lacking"]]
    if fault is not None:
        return f"{answer['flow']}: {fault['text']}; remedy: {fault['remedy']}"
    reason = f": {'; '.join(doubts)}" if doubts else ""
    return f"{answer['flow']}: {answer['summary']}; it cannot be judged{reason}"


def _answer(output: str) -> dict[str, Any] | None:
    try:
        answer = json.loads(output)
    except ValueError:
        return None
    return answer if isinstance(answer, dict) else None


def _reason(status: int, errors: str) -> str:
    """Return the command's error in the names of the module's options."""
    lines = [line.strip() for line in errors.splitlines() if line.strip()]
    if not lines:
        return f"kubenode explain ended with exit status {status} and no output"
    if lines[0].startswith("kubenode: unknown command"):
        return "the installed agent has no command explain: install a newer release"
    text = lines[-1].partition("kubenode explain: ")[2] or lines[-1]
    return re.sub(r"(?<!\S)--[a-z-]+", lambda option: _NAMES.get(option[0], option[0]), text)
