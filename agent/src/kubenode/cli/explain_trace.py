# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Trace of a connection's packets through nftables, while ``kubenode explain --observe`` runs."""

from __future__ import annotations

import socket
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from ..engine.errors import EngineError

if TYPE_CHECKING:
    from types import TracebackType

    from ..engine.explain.faults import Case
    from ..engine.kernel.nftables.tracer import Tracer

_AFTER_PROBE = 1.0  # seconds to wait for the first event of a probe that has ended
_LEGACY_TABLES = {4: "ip_tables_names", 6: "ip6_tables_names"}
_LOGGERS = {4: 2, 6: 10}  # address families, as the names of nf_log's sysctls
_NO_LOGGER = ("NONE", "")


class Trace:
    """Trace of one connection, from the entry of the context to its end.

    Args:
        case: the case of the connection.
        source: the client's address of the packets to trace.
        seconds: how long to wait for the first packet; None after a probe.
    """

    def __init__(self, case: Case, source: str, seconds: float | None) -> None:
        self._case = case
        self._source = source
        self._seconds = seconds
        self._tracer: Tracer | None = None
        self._notes: list[str] = []

    def __enter__(self) -> Trace:
        from ..engine.kernel.nftables.tracer import TracedFlow, Tracer

        case, flow = self._case, self._case.flow
        legacy = _legacy_tables(flow.family)
        logger = _logger(flow.family) if legacy else ""
        if logger:
            setting = f"net.netfilter.nf_log.{_LOGGERS[flow.family]}"
            self._notes.append(
                f"no trace: iptables-legacy has the tables {legacy}, and the kernel would log each traced packet in"
                f" them by {logger}; for a trace, set sysctl {setting} to NONE"
            )
            return self
        if legacy:
            self._notes.append(
                f"iptables-legacy has the tables {legacy}: their rules send no events, so none is in this trace"
            )
        family = "ip" if flow.family == 4 else "ip6"
        replies = case.view.sysctl("net.ipv4.vs.conntrack") == "1"
        if not replies:
            self._notes.append("answers are not traced: sysctl net.ipv4.vs.conntrack is not 1")
        traced = TracedFlow(family, flow.protocol, self._source, flow.destination, flow.port, replies)
        try:
            self._tracer = Tracer(traced)
        except EngineError as error:
            self._notes.append(f"no trace: {error}")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._tracer is not None:
            self._tracer.close()

    def result(self) -> dict[str, Any]:
        """Return ``packets`` and ``notes`` when the connection rests; the table is gone then."""
        if self._tracer is None:
            return {"packets": [], "notes": self._notes}
        from ..engine.explain.trace import report_packets
        from .explain_rules import ruleset

        try:
            events = self._tracer.read(_AFTER_PROBE if self._seconds is None else self._seconds)
        except EngineError as error:
            events = []
            self._notes.append(f"no trace: {error}")
        self._tracer.close()
        if self._tracer.is_incomplete:
            self._notes.append("events were lost: the kernel sent them faster than they could be read")
        packets = report_packets(self._case, events, ruleset(self._case, events)) if events else []
        if not packets:
            flow = self._case.flow
            source = f" from {self._source}" if self._source else ""
            when = "during the probe" if self._seconds is None else f"within {self._seconds:g} s"
            text = f"no {flow.protocol} packet{source} to {flow.destination} port {flow.port} was seen {when}"
            self._notes.append(text)
        return {"packets": packets, "notes": self._notes}


def _legacy_tables(family: int) -> str:
    """Return the tables of iptables-legacy in this network namespace."""
    with suppress(OSError), open(f"/proc/thread-self/net/{_LEGACY_TABLES[family]}", encoding="ascii") as file:
        return ", ".join(sorted(file.read().split()))
    return ""


def _logger(family: int) -> str:
    """Return the kernel's logger for a family; "" if there is none."""
    with suppress(OSError), open(f"/proc/sys/net/netfilter/nf_log/{_LOGGERS[family]}", encoding="ascii") as file:
        name = file.read().strip()
        return "" if name in _NO_LOGGER else name
    return ""


def source_of(destination: str, port: int) -> str:
    """Return the address from which this thread's network namespace connects to a destination; "" without a route.

    Connecting a UDP socket sends nothing.
    """
    family = socket.AF_INET6 if ":" in destination else socket.AF_INET
    with suppress(OSError), socket.socket(family, socket.SOCK_DGRAM) as probe:
        probe.connect((destination, port))
        return str(probe.getsockname()[0])
    return ""
