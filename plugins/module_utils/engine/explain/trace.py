# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Observed ways of packets, from the events of nftables' trace: each rule that a packet matches, and its end."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from ..model.ipvs import endpoint
from ..model.nft_trace import POLICY, RULE, TABLE_PREFIX, Headers, TraceEvent
from .faults.case import Case, Fault, is_ours
from .flow import Decision
from .trace_packets import TracedPacket, assembled
from .trace_service import service_of

# Ends of a packet's way, as far as the trace shows it.
DROPPED, SENT, DELIVERED, LOST = "dropped", "sent", "delivered", "lost"
_EFFECTS = {"accept": "accepts it", "drop": "drops it", "return": "ends the chain", "continue": "matches it"}
_EFFECTS.update({"queue": "hands it to a program (queue)", "stolen": "takes it"})
_AFTER = {
    "prerouting": "the route or reverse path filtering drops it, or a rule that sends no events",
    "input": "IPVS does not send it on, or a rule that sends no events drops it",
}
_LAST_CHAIN, _DELIVERED_CHAIN = "postrouting", "delivered"  # of a trace's own table, behind all others of their hooks
_AFTER_ANY = "a rule that sends no events drops it"

RuleId = tuple[str, str, str, int]  # family, table, chain, handle
ChainId = tuple[str, str, str]


class KnownRule(NamedTuple):
    """A rule of an event: its number in the chain from 1 on, its text ("" if unknown), and itself as evidence."""

    number: int
    text: str
    evidence: Decision | None = None


class Ruleset(NamedTuple):
    """Rules by handle, hooks of base chains, and names of links by index."""

    rules: Mapping[RuleId, KnownRule]
    hooks: Mapping[ChainId, str]
    links: Mapping[int, str]


def report_packets(case: Case, events: Iterable[TraceEvent], known: Ruleset) -> list[dict[str, Any]]:
    """Return the way of each packet.

    A packet has ``direction`` (``request`` or ``reply``), its first ``protocol``, ``flags``, ``source``,
    ``source_port``, ``destination``, ``port`` and ``in_interface``; ``steps``; ``end`` (``dropped``, ``sent``,
    ``delivered`` or ``lost``) and ``result``, a sentence about it. A step has ``stage``, ``text`` and ``owner``; that
    of a rule or a policy also ``table``, ``chain``, ``rule``, ``handle``, ``verdict`` and ``mark``.
    """
    return [_Way(case, packet, known).report() for packet in assembled(events)]


class _Way:
    """Conversion of one packet's events."""

    def __init__(self, case: Case, packet: TracedPacket, known: Ruleset) -> None:
        self.case = case
        self.packet = packet
        self.known = known
        self.stage = ""
        self.headers: Headers | None = None
        self.mark = 0
        self.out_link = 0
        self.steps: list[dict[str, Any]] = []
        self.end, self.result = LOST, ""

    def report(self) -> dict[str, Any]:
        first = self.packet.events[0]
        headers = first.headers or Headers("", "", "")
        for event in self.packet.events:
            self._follow(event)
        if self.end == LOST:
            self.result = f"no event after {self.stage}: {_AFTER.get(self.stage, _AFTER_ANY)}"
        return {
            "direction": "reply" if self.packet.is_reply else "request",
            "protocol": headers.protocol,
            "flags": headers.flags,
            "source": headers.source,
            "source_port": headers.source_port,
            "destination": headers.destination,
            "port": headers.port,
            "in_interface": self._link(first.in_link),
            "steps": self.steps,
            "end": self.end,
            "result": self.result,
        }

    def _follow(self, event: TraceEvent) -> None:
        is_own = event.table.startswith(TABLE_PREFIX)
        if is_own:
            self.stage = "input" if event.chain == _DELIVERED_CHAIN else event.chain.partition("-")[0]
        else:
            self.stage = self.known.hooks.get((event.family, event.table, event.chain), self.stage)
        if event.headers is not None:
            self.out_link = event.out_link
            self._notice_translation(event.headers)
        if not is_own and (event.kind == POLICY or (event.kind == RULE and event.handle)):
            self._add(event)
        self.mark = event.mark
        if is_own and event.kind == POLICY:
            self._notice_end(event.chain)

    def _notice_translation(self, headers: Headers) -> None:
        before, self.headers = self.headers, headers
        if before is None:
            return
        source = endpoint(headers.source, headers.source_port)
        if source != endpoint(before.source, before.source_port):
            self._note(f"it comes from {source} from here on")
        target = endpoint(headers.destination, headers.port)
        if target != endpoint(before.destination, before.port):
            is_real = any(str(each) == target for each in self.case.path.targets)
            self._note(f"IPVS sends it to {target}" if is_real else f"it goes to {target} from here on")

    def _note(self, text: str) -> None:
        self.steps.append({"stage": self.stage, "text": text, "owner": ""})

    def _notice_end(self, chain: str) -> None:
        if self.end == DROPPED:
            return
        headers = self.headers
        if chain == _LAST_CHAIN and headers is not None:
            way = f"{endpoint(headers.source, headers.source_port)} -> {endpoint(headers.destination, headers.port)}"
            self.end, self.result = SENT, f"leaves by {self._link(self.out_link)}: {way}"
        elif chain == _DELIVERED_CHAIN:
            self.end, self.result = DELIVERED, "goes to a process of this node"

    def _add(self, event: TraceEvent) -> None:
        place = f"chain {event.family} {event.table} {event.chain}"
        key = (event.family, event.table, event.chain, event.handle)
        rule = self.known.rules.get(key, KnownRule(0, "")) if event.kind == RULE else KnownRule(0, "")
        owner = self._owner(event, rule)
        if event.kind == POLICY:
            text = f"the policy of {place} {_EFFECTS.get(event.verdict, event.verdict)}"
        else:
            name = f"rule {rule.number} (handle {event.handle})" if rule.number else f"rule with handle {event.handle}"
            words = f": {rule.text}" if rule.text else "" if rule.number else ", which is gone"
            text = f"{name} of {place} {self._effect(event)}{words}"
        self.steps.append(
            {
                "stage": self.stage,
                "text": text,
                "owner": owner,
                "table": f"{event.family} {event.table}",
                "chain": event.chain,
                "rule": rule.number,
                "handle": event.handle,
                "verdict": " ".join(word for word in (event.verdict, event.target) if word),
                "mark": event.mark,
            }
        )
        if event.verdict == "drop":
            self.end, self.result = DROPPED, text

    def _effect(self, event: TraceEvent) -> str:
        if event.verdict in ("jump", "goto"):
            return f"leads to chain {event.target}"
        if event.verdict == "continue" and event.mark != self.mark:
            return f"sets the mark to {event.mark:#x}"
        return _EFFECTS.get(event.verdict, f"has the verdict {event.verdict}")

    def _owner(self, event: TraceEvent, rule: KnownRule) -> str:
        if self.case.want is None:
            return ""
        if event.kind == POLICY:
            known = self.case.want.get("nft_chain", {})
            names = {(key.table.family, key.table.name, key.name) for key in known}
            return "agent" if (event.family, event.table, event.chain) in names else "another program"
        if rule.evidence is None or not is_ours(self.case, rule.evidence):
            return "another program"
        service = service_of(self.case, rule.evidence, self.headers)
        return f"agent, {service}" if service else "agent"

    def _link(self, index: int) -> str:
        return self.known.links.get(index, str(index)) if index else ""


def trace_fault(case: Case, packets: Iterable[Mapping[str, Any]]) -> Fault | None:
    """Return the fault that a trace shows where the prediction has none: another program drops the requests."""
    for packet in packets:
        if packet["end"] != DROPPED or packet["direction"] != "request":
            continue
        last = next(step for step in reversed(packet["steps"]) if step.get("verdict") == "drop")
        if last["owner"].startswith("agent"):
            continue
        is_rule = bool(last["handle"])
        return Fault(
            "foreign-rule" if is_rule else "foreign-policy",
            f"the trace shows that another program drops its packets: {last['text']}",
            "remove the rule, or accept this traffic before it"
            if is_rule
            else "accept this traffic in the chain, or give it the policy accept",
        )
    return None
