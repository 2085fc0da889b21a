# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Explain why a connection arrives or does not arrive.

  kubenode explain tcp 10.244.1.11 10.96.0.10:53           from a pod, the node itself or another machine
  kubenode explain --service shop/web --port http --from 10.0.0.9
  kubenode explain --node-port 30080 --from 10.0.0.9

Predicts the way of the first packet from this node's state: route, rules, sets, virtual server, real servers, source
address, and the way back. Compares it with the desired state. Prints the first difference in one sentence with the
remedy, then each decision. Without --from, the node itself is the client.

Changes and sends nothing, except with --probe: it opens one connection from the node or from --netns. --observe shows
the entries and counters that the kernel has for the connection.

Works with and without a running agent. The desired state comes from --objects, the configured manifests, or the
agent's copy of the Kubernetes API's last state.

Exit status: 0 the connection arrives as wanted, 1 it does not, 2 it cannot be judged, 64 wrong usage.
"""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING, Any

from ..engine.errors import EngineError
from .commands import USAGE_ERROR

if TYPE_CHECKING:
    from ..engine.desired.cluster import Cluster

UNJUDGED = 2
_SYNTAX = "expected PROTOCOL SOURCE ADDRESS:PORT, --service NAMESPACE/NAME, or --node-port PORT"


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add this command's arguments."""
    from .parser import add_config, add_objects, add_run_dir

    parser.add_argument("flow", nargs="*", metavar="FLOW", help="PROTOCOL SOURCE ADDRESS:PORT")
    parser.add_argument("--service", metavar="NAMESPACE/NAME", help="to the cluster IP of this Service")
    parser.add_argument("--port", metavar="PORT", help="name or number of the Service's port (default: its only port)")
    parser.add_argument("--node-port", metavar="PORT", help="to this node port, on this node")
    parser.add_argument("--protocol", choices=("tcp", "udp", "sctp"), help="of the node port (default: tcp)")
    parser.add_argument("--from", dest="source", metavar="ADDRESS", help="the client (default: the node itself)")
    parser.add_argument(
        "--in-interface", metavar="LINK", help="link by which the client's packets arrive (default: by the routes)"
    )
    parser.add_argument("--observe", action="store_true", help="show the kernel's entries and counters, too")
    parser.add_argument("--probe", action="store_true", help="open one connection")
    parser.add_argument("--netns", metavar="NAME", help="open it in this network namespace (ip netns)")
    parser.add_argument("--format", choices=("text", "json", "html"), default="text", help="default: %(default)s")
    add_objects(parser)
    add_config(parser)
    add_run_dir(parser)


def run(options: argparse.Namespace) -> int:
    """Print the explanation."""
    from .explain_flow import WrongFlowError

    try:
        return _explain(options)
    except WrongFlowError as error:
        print(f"kubenode explain: {error}", file=sys.stderr)
        return USAGE_ERROR
    except EngineError as error:
        print(f"kubenode explain: {error}", file=sys.stderr)
        return UNJUDGED


def _explain(options: argparse.Namespace) -> int:
    from ..engine.explain.faults import case_of, find
    from ..engine.explain.report import report
    from ..engine.proxy.node_view import read_view
    from .explain_flow import arriving, requested
    from .explain_observe import observed, probe_fault

    _check(options)
    cluster, objects, lacking = _desired(options)
    flow = requested(options, cluster)
    sysctls = cluster.state()["sysctl"] if cluster is not None else {}
    view = read_view(flow, sysctls)
    flow = arriving(options, flow, view)
    owners, trouble = _owners(options.run_dir)
    case = case_of(view, flow, cluster, objects, owners)
    fault = find(case)
    seen: dict[str, Any] = {}
    if options.observe or options.probe:
        seen = observed(flow, case.path, options.observe, options.probe, options.netns or "")
        fault = fault or probe_fault(case, seen)
    answer = report(case, fault, [*lacking, *trouble, *view.host.lacking], seen)
    _print(answer, options.format)
    return {"arrives": 0, "unknown": UNJUDGED}.get(answer["verdict"], 1)


def _check(options: argparse.Namespace) -> None:
    """Refuse options that contradict each other.

    Raises:
        WrongFlowError: with the reason.
    """
    from .explain_flow import WrongFlowError

    forms = [bool(options.flow), options.service is not None, options.node_port is not None]
    if sum(forms) != 1:
        raise WrongFlowError(_SYNTAX)
    if options.flow and options.source is not None:
        raise WrongFlowError("--from is for --service and --node-port: FLOW has the source itself")
    if options.netns is not None and not options.probe:
        raise WrongFlowError("--netns is for --probe")
    if options.port is not None and options.service is None:
        raise WrongFlowError("--port is for --service")
    if options.netns is not None:
        from .explain_observe import namespace_path

        if not namespace_path(options.netns):
            raise WrongFlowError(f"--netns is {options.netns!r}, expected a network namespace of: ip netns list")


def _desired(options: argparse.Namespace) -> tuple[Cluster | None, dict[tuple[str, str], Any], list[str]]:
    """Return the cluster, the Services as objects, and what is missing if the objects cannot be read."""
    from ..engine.proxy.drain.store import recall_holders
    from ..paths import OWNER
    from .desired import this_node

    try:
        cluster, source = this_node(options, lambda _text: None)
    except EngineError as error:
        return None, {}, [f"the desired state ({error}): the objects are unknown, and no fault can be told from them"]
    objects = {}
    for item in source.objects():
        metadata = item.get("metadata")
        if item.get("kind") == "Service" and isinstance(metadata, dict):
            objects[str(metadata.get("namespace") or "default"), str(metadata.get("name"))] = item
    ledger = _ledger(options.run_dir)
    if ledger is not None:
        cluster.resume(recall_holders(ledger, OWNER))
        ledger.close()
    return cluster, objects, []


def _ledger(directory: str) -> Any:
    """Return the opened ledger; None if there is none, or it cannot be read."""
    import os

    from ..engine.ledger import Ledger

    if not os.path.exists(os.path.join(directory, "ledger.db")):
        return None
    try:
        return Ledger(directory)
    except EngineError:
        return None


def _owners(directory: str) -> tuple[Any, list[str]]:
    """Return the owners of virtual servers, None without a ledger; and what is missing."""
    ledger = _ledger(directory)
    if ledger is None:
        return None, [f"the ledger ({directory}/ledger.db): owners are unknown"]
    try:
        return dict(ledger.others("").get("virtual_server", {})), []
    except EngineError as error:
        return None, [str(error)]
    finally:
        ledger.close()


def _print(answer: dict[str, Any], form: str) -> None:
    if form == "json":
        import json

        print(json.dumps(answer, indent=1))
    elif form == "html":
        from .explain_html import page

        print(page(answer))
    else:
        from .explain_text import lines

        print("\n".join(lines(answer)))
