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

Changes and sends nothing without --observe and --probe. --observe shows the kernel's entries and counters for the
connection, and a trace of its next packets through nftables: for that, it adds a table of nftables, which ends with
the command. --probe opens one connection from the node or from --netns.

Works with and without a running agent. The desired state comes from --objects, the configured manifests, or the
agent's copy of the Kubernetes API's last state.

Exit status: 0 the connection arrives as wanted, 1 it does not, 2 it cannot be judged, 64 wrong usage.
"""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING, Any, NamedTuple

from ..engine.errors import EngineError
from .commands import USAGE_ERROR

if TYPE_CHECKING:
    from ..engine.desired.cluster import Cluster
    from ..engine.explain.flow import Flow
    from ..engine.explain.view import NodeView
    from ..engine.ledger import Ledger

UNJUDGED = 2
_WAIT = 2.0  # seconds
_LONGEST_WAIT = 3600
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
    parser.add_argument("--observe", action="store_true", help="show the kernel's entries and counters, and a trace")
    parser.add_argument(
        "--wait",
        metavar="SECONDS",
        help=f"with --observe and no probe, how long to wait for a packet (default: {_WAIT:g}); 0 gives no trace",
    )
    parser.add_argument("--probe", action="store_true", help="open one connection")
    parser.add_argument("--netns", metavar="NAME", help="open it in this network namespace (ip netns)")
    parser.add_argument("--format", choices=("text", "json", "html"), default="text", help="default: %(default)s")
    add_objects(parser)
    add_config(parser)
    add_run_dir(parser)


def run(options: argparse.Namespace) -> int:
    """Print the explanation."""
    import gc

    gc.disable()  # the process ends soon, and the objects of a large cluster would be searched again and again
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
    from ..engine.explain.trace import trace_fault
    from ..engine.proxy.node_view import read_view
    from .explain_flow import arriving, requested
    from .explain_observe import Request, observed, probe_fault

    _check(options)
    seconds = _seconds(options)
    known = _desired(options)
    flow = requested(options, known.cluster)
    view = read_view(flow, known.cluster.state()["sysctl"] if known.cluster is not None else {})
    flow = arriving(options, flow, view)
    case = case_of(view, flow, known.cluster, known.services, _owners(known, view, flow), known.backend)
    fault = find(case)
    seen: dict[str, Any] = {}
    if options.observe or options.probe:
        seen = observed(case, Request(options.observe, options.probe, options.netns or "", seconds))
        fault = fault or trace_fault(case, seen.get("trace", {}).get("packets", ())) or probe_fault(case, seen)
    answer = report(case, fault, [*known.lacking, *view.host.lacking], seen)
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


def _seconds(options: argparse.Namespace) -> float:
    """Return how long to wait for packets.

    Raises:
        WrongFlowError: the option is no number of seconds, or has no use.
    """
    from .explain_flow import WrongFlowError

    text = options.wait
    if text is None:
        return _WAIT
    if not options.observe or options.probe:
        raise WrongFlowError("--wait is for --observe without --probe")
    if not (text.isascii() and text.isdigit() and len(text) <= 4 and int(text) <= _LONGEST_WAIT):
        raise WrongFlowError(f"--wait is {text!r}, expected a number of seconds from 0 to {_LONGEST_WAIT}")
    return float(text)


class _Known(NamedTuple):
    """The desired state: the cluster (None if unknown), the Services as objects, rules back end, ledger; what lacks."""

    cluster: Cluster | None
    services: dict[tuple[str, str], Any]
    backend: str
    ledger: Ledger | None
    lacking: list[str]


def _desired(options: argparse.Namespace) -> _Known:
    """Return the desired state; an unreadable source or ledger is named, and is no error."""
    from ..engine.proxy.drain.store import recall_holders
    from ..engine.proxy.rules_backend import choose
    from ..paths import OWNER
    from .desired import this_node

    lacking = []
    ledger = _ledger(options.run_dir)
    if ledger is None:
        lacking.append(f"the ledger ({options.run_dir}/ledger.db): owners are unknown")
    kinds = {} if ledger is None else {kind: (kind,) for kind in ledger.kinds(OWNER)}
    try:
        cluster, source = this_node(options, lambda _text: None)
    except EngineError as error:
        lacking.append(f"the desired state: {error}; without it, no item can be told from another program's")
        return _Known(None, {}, choose("auto", lambda: kinds).backend, ledger, lacking)
    services = {}
    for item in source.objects():
        metadata = item.get("metadata")
        if item.get("kind") == "Service" and isinstance(metadata, dict):
            services[str(metadata.get("namespace") or "default"), str(metadata.get("name"))] = item
    if ledger is not None:
        cluster.resume(recall_holders(ledger, OWNER))
    return _Known(cluster, services, choose(cluster.config.rules_backend, lambda: kinds).backend, ledger, lacking)


def _ledger(directory: str) -> Ledger | None:
    """Return the opened ledger; None if there is none, or it cannot be read."""
    import os

    from ..engine.ledger import Ledger

    if not os.path.exists(os.path.join(directory, "ledger.db")):
        return None
    try:
        return Ledger(directory)
    except EngineError:
        return None


def _owners(known: _Known, view: NodeView, flow: Flow) -> dict[Any, str] | None:
    """Return the owners of the virtual servers that may take the flow, None without a ledger."""
    if known.ledger is None:
        return None
    keys = {flow.key, *(key for key in view.items["virtual_server"] if key.protocol == "fwmark")}
    try:
        return known.ledger.owners_of("virtual_server", keys)
    finally:
        known.ledger.close()


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
