# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The kernel's entries and counters for a connection, and a probe: one connection."""

from __future__ import annotations

import ctypes
import os
import socket
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Callable, NamedTuple

from ..engine.errors import EngineError
from ..engine.explain.faults import Case, Fault

if TYPE_CHECKING:
    from ..engine.explain.flow import Flow, Path

_CLONE_NEWNET = 0x40000000
_PATIENCE = 3.0  # seconds
_KINDS = {"tcp": (socket.SOCK_STREAM, 0), "udp": (socket.SOCK_DGRAM, 0), "sctp": (socket.SOCK_STREAM, 132)}
_MOST = 20  # lines
_COUNTER_PERIOD = 2.5  # seconds; the kernel adds new connections to its counters every two
_PAUSE = 0.1
CONNECTED, REFUSED, SILENCE, UNREACHABLE = "connected", "refused", "no answer", "unreachable"


def namespace_path(name: str) -> str:
    """Return the path of a network namespace of ``ip netns``; "" if there is none."""
    path = f"/run/netns/{name}"
    return path if name and "/" not in name and os.path.exists(path) else ""


class Request(NamedTuple):
    """Wanted observations: entries with a trace, one connection, its network namespace; seconds to wait for packets.

    ``netns`` is "" for this one. Without seconds and a probe, there is no trace.
    """

    entries: bool
    probe: bool
    netns: str
    seconds: float


def observed(case: Case, request: Request) -> dict[str, Any]:
    """Return counters, entries of IPVS and connection tracking, and the result of a probe, as texts by title.

    ``trace`` has the packets and notes of :class:`.explain_trace.Trace`.
    """
    observations: dict[str, Any] = {}
    flow, path = case.flow, case.path
    before = _counters(path)
    if request.entries and (request.probe or request.seconds):
        observations.update(_traced(case, request))
    elif request.probe:
        observations["probe"] = _probe(flow, request.netns)
    if request.entries:
        observations["connections of IPVS"] = _ipvs(flow)
        observations["connection tracking"] = _conntrack(flow)
    after = _counters(path)
    if request.entries and observations.get("probe") == CONNECTED:
        after = _counted(path, before)
    if after is not None:
        change = ""
        if before is not None and (request.probe or after != before):
            change = f", {after - before} of them meanwhile"
        observations["counter"] = f"{path.server} has got {after} connections{change}"
    return observations


def _traced(case: Case, request: Request) -> dict[str, Any]:
    """Return the result of a probe, if one is wanted, and the trace."""
    from .explain_trace import Trace, source_of

    flow = case.flow
    if not request.probe:
        with Trace(case, flow.source, request.seconds) as trace:
            return {"trace": trace.result()}
    source = _in_namespace(request.netns, lambda: source_of(flow.destination, flow.port))
    with Trace(case, source, None) as trace:
        result = _probe(flow, request.netns)
        return {"probe": result, "trace": trace.result()}


def probe_fault(case: Case, seen: dict[str, Any]) -> Fault | None:
    """Return the fault that a probe shows where the prediction has none: the pod does not answer."""
    result = seen.get("probe", CONNECTED)
    if not case.path.arrives or result in (CONNECTED, "sent"):
        return None
    targets = ", ".join(str(target) for target in case.path.targets[:3])
    if result == REFUSED:
        sentence = f"the connection reaches a real server, which refuses it: no process listens on {targets}"
        return Fault("pod-refuses", sentence, "check targetPort, and that the process in the pod listens")
    sentence = f"the probe gets {result}, although the node sends it to {targets}"
    return Fault("pod-silent", sentence, "check the pod, network policies, and the route from it back to this node")


def _counted(path: Path, before: int | None) -> int | None:
    """Return the counter when it differs; wait until the kernel has added new connections to it."""
    after = _counters(path)
    for _pause in range(int(_COUNTER_PERIOD / _PAUSE)):
        if after != before:
            break
        time.sleep(_PAUSE)
        after = _counters(path)
    return after


def _counters(path: Path) -> int | None:
    from ..engine.kernel.ipvs.statistics import statistics

    if path.server is None:
        return None
    with suppress(EngineError):
        traffic = statistics(real_servers=False)["virtual_server"].get(path.server)
        return None if traffic is None else int(traffic.connections)
    return None


def _ipvs(flow: Flow) -> list[str]:
    from ..engine.proxy.node_view import address, connection_lines

    lines = []
    for words in connection_lines(flow.key):
        client = address(words[1])
        if client == flow.source or not flow.link:
            port = int(words[2], 16)
            what = f"from {client} port {port}" if port else f"persistence of {client}"
            lines.append(f"{what} to {address(words[5])} port {int(words[6], 16)}, {words[7]}, {words[8]} s left")
    return lines[:_MOST]


def _conntrack(flow: Flow) -> list[str] | str:
    try:
        with open("/proc/thread-self/net/nf_conntrack", encoding="ascii", errors="replace") as file:
            lines = list(file)
    except OSError:
        from ..engine.kernel.command import is_installed, run

        if not is_installed("conntrack"):
            return "unknown: the kernel has no list of connections in /proc, and the command conntrack is not installed"
        family = "ipv4" if flow.family == 4 else "ipv6"
        ended = run(["conntrack", "-L", "-f", family, "-p", flow.protocol, "--orig-dst", flow.destination])
        lines = ended.output.splitlines()
    wanted = (f" dst={flow.destination} ", f" dport={flow.port} ")
    return [" ".join(line.split()) for line in lines if all(text in f"{line} " for text in wanted)][:_MOST]


def _probe(flow: Flow, netns: str) -> str:
    """Open one connection; return what happened."""
    return _in_namespace(netns, lambda: _connect(flow))


def _in_namespace(netns: str, function: Callable[[], str]) -> str:
    """Call a function while this thread is in a network namespace; "" for its own."""
    home = os.open("/proc/thread-self/ns/net", os.O_RDONLY | os.O_CLOEXEC)
    try:
        if netns:
            _enter(namespace_path(netns))
        return function()
    finally:
        _set_namespace(home)
        os.close(home)


def _enter(path: str) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        _set_namespace(descriptor)
    finally:
        os.close(descriptor)


def _set_namespace(descriptor: int) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.setns(descriptor, _CLONE_NEWNET):
        code = ctypes.get_errno()
        raise EngineError(f"the network namespace cannot be entered: {os.strerror(code)}")


def _connect(flow: Flow) -> str:
    kind, protocol = _KINDS[flow.protocol]
    try:
        with socket.socket(socket.AF_INET6 if flow.family == 6 else socket.AF_INET, kind, protocol) as client:
            client.settimeout(_PATIENCE)
            client.connect((flow.destination, flow.port))
            if flow.protocol != "udp":
                return CONNECTED
            client.send(b"")
            client.settimeout(1.0)
            with suppress(TimeoutError):
                client.recv(1)
            return "sent"
    except (ConnectionRefusedError, PermissionError):
        return REFUSED
    except TimeoutError:
        return SILENCE
    except OSError as error:
        return f"{UNREACHABLE} ({error.strerror or error})"
