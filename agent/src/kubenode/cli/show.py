# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Show this node's virtual servers.

For each: its owner in the ledger ("-" if unowned), its Service port, scheduler and persistence, and its real servers
with weight, active and inactive connections. Then the objects that the agent could not use, the steps that failed, and
the drift on the node.

  tcp 10.96.0.10:53 rr   agent   kube-system/kube-dns:dns-tcp
    -> 10.244.1.5:53     weight 1   active 2   inactive 14
    -> 10.244.2.7:53     weight 0   active 1   inactive 0   draining for 12 s, until its connections end

The virtual server of a deleted Service stays, with "-" for the Service and weight 0, until its connections have ended,
or at the most for gracefulTermination.maxDuration. A closed TCP connection counts for two minutes, a silent one for 15
(the kernel's timeouts).

Works with and without a running agent. Without an agent, names and drift come from --objects or the configured
manifests.

Exit status: 0 shown, 1 the kernel's table cannot be read, 64 wrong usage.
"""

from __future__ import annotations

import argparse
from typing import Any


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add this command's arguments."""
    from .parser import add_config, add_objects, add_run_dir

    parser.add_argument("--format", choices=("text", "json"), default="text", help="default: %(default)s")
    add_objects(parser)
    add_config(parser)
    add_run_dir(parser)


def run(options: argparse.Namespace) -> int:
    """Print the virtual servers."""
    import json

    view = _view(options)
    print(json.dumps(view, indent=1) if options.format == "json" else "\n".join(_lines(view)))
    return 0


def _view(options: argparse.Namespace) -> dict[str, Any]:
    from ..engine.kernel import ipvs
    from ..engine.model.ipvs import PERSISTENT, endpoint

    table = ipvs.read()
    connections = ipvs.read_connections()
    names, problems, drift, draining = _known(options)
    owners, ignored = _owners(options.run_dir)
    problems = [*ignored, *problems]
    reals: dict[Any, list[dict[str, Any]]] = {}
    for key, value in sorted(table["real_server"].items()):
        active, inactive = connections.get(key, (0, 0))
        reals.setdefault(key.server, []).append(
            {
                "real_server": endpoint(key.address, key.port),
                "weight": value.weight,
                "forward": value.forward,
                "active": active,
                "inactive": inactive,
                "draining": draining.get(str(key)),
            }
        )
    servers = [
        {
            "virtual_server": str(key),
            "scheduler": value.scheduler,
            "persistence": value.timeout if value.flags & PERSISTENT else 0,
            "owner": owners.get(key, ""),
            "service": names.get(str(key), ""),
            "real_servers": reals.get(key, []),
        }
        for key, value in sorted(table["virtual_server"].items())
    ]
    return {"virtual_servers": servers, "problems": problems, "drift": drift}


def _owners(directory: str) -> tuple[dict[Any, str], list[str]]:
    """Return the owner of each virtual server, and the rows of the ledger that cannot be read."""
    import os
    from contextlib import closing

    from ..engine.errors import LedgerError
    from ..engine.ledger import Ledger

    if not os.path.exists(os.path.join(directory, "ledger.db")):
        return {}, []
    try:
        with closing(Ledger(directory)) as ledger:
            return dict(ledger.others("").get("virtual_server", {})), ledger.problems
    except LedgerError as error:
        return {}, [str(error)]


def _known(options: argparse.Namespace) -> tuple[dict[str, str], list[str], list[str], dict[str, dict[str, Any]]]:
    """Return the names of virtual servers, problems and drift, from the agent, or else from manifests.

    The fourth value comes from the agent only: for how many ``seconds`` each real server drains, and for how many it
    may at ``most`` (0: no bound).
    """
    import os

    from ..engine.errors import EngineError
    from ..paths import SOCKET
    from .ask import question

    socket = os.path.join(options.run_dir, SOCKET)
    try:
        if options.objects is None:
            status = question(socket, "status")
            last = status["last_full_sync"] or {"drift": []}
            draining = {
                item["real_server"]: {"seconds": item["seconds"], "most": item["most"]} for item in status["draining"]
            }
            return question(socket, "names"), [item["text"] for item in status["problems"]], last["drift"], draining
    except EngineError as error:
        reason = str(error)
    else:
        reason = ""
    try:
        from .desired import this_node, wanted
        from .oneshot import Pass

        cluster, source = this_node(options)
        want: dict[str, dict[Any, Any]] = wanted(cluster)
        with Pass(options.run_dir, cluster.config.graceful_max_duration) as work:
            drift = work.plan(want).lines()
        problems = [text for texts in cluster.problems.values() for text in texts] + list(source.problems.values())
        return {str(key): cluster.port_of(key) for key in want["virtual_server"]}, problems, drift, {}
    except EngineError as error:
        return {}, [text for text in (reason, str(error)) if text], [], {}


def _draining(real: dict[str, Any]) -> str:
    """Describe the drain of a real server, with its limit."""
    known = real["draining"]
    if known:
        bound = f"at most {known['most']:g} s" if known["most"] else "until its connections end"
        return f"   draining for {known['seconds']} s, {bound}"
    return "   draining" if real["weight"] == 0 and real["active"] + real["inactive"] else ""


def _lines(view: dict[str, Any]) -> list[str]:
    lines = []
    for server in view["virtual_servers"]:
        extra = f" persistent {server['persistence']}" if server["persistence"] else ""
        lines.append(
            f"{server['virtual_server']} {server['scheduler']}{extra}   {server['owner'] or '-'}  "
            f" {server['service'] or '-'}"
        )
        for real in server["real_servers"]:
            text = (
                f"  -> {real['real_server']:24} weight {real['weight']:<5} active {real['active']:<6} inactive"
                f" {real['inactive']}"
            )
            lines.append(text + _draining(real))
    if not lines:
        lines.append("no virtual servers")
    lines.extend(f"problem: {text}" for text in view["problems"])
    lines.extend(f"drift: {text}" for text in view["drift"])
    return lines
