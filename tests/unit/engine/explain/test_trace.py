# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Ways of packets from events of nftables' trace, most of them recorded."""

from __future__ import annotations

from typing import Any

from support.tables.nft_traces import recorded_trace

from kubenode.engine.explain.faults import Case
from kubenode.engine.explain.flow import Flow, Path
from kubenode.engine.explain.trace import KnownRule, Ruleset, report_packets, trace_fault
from kubenode.engine.explain.trace_packets import assembled
from kubenode.engine.explain.view import NodeView, host_of
from kubenode.engine.kernel.nftables.trace_events import events
from kubenode.engine.model.nft_trace import TABLE_PREFIX, Headers, TraceEvent

FLOW = Flow("tcp", "10.99.0.11", "10.96.0.7", 80, "eth0")
RULES = Ruleset({("inet", "foreign", "input", 2): KnownRule(1, "ip daddr 10.96.0.7 drop")}, {}, {2: "eth0", 3: "cni0"})
OWN = f"{TABLE_PREFIX}9"


def recorded(name: str) -> list[TraceEvent]:
    return [event for packet in recorded_trace(name) for event in events(packet)]


def packets(events: list[TraceEvent], known: Ruleset = RULES) -> list[dict[str, Any]]:
    view = NodeView({}, {}, {}, host_of([("eth0", "10.99.0.1", 24)]))
    return report_packets(Case(view, FLOW, Path(FLOW, "delivered", ""), want={}), events, known)


def mark(number: int, headers: Headers, chain: str = "prerouting", link: int = 2) -> TraceEvent:
    return TraceEvent(number, "ip", OWN, chain, "rule", 1, "continue", in_link=link, headers=headers)


def test_each_bridged_packet_is_followed_to_its_end() -> None:
    reported = packets(recorded("bridged"))
    assert {packet["end"] for packet in reported} == {"sent"}
    assert [packet["flags"] for packet in reported if packet["direction"] == "request"][:2] == ["SYN", "ACK"]
    requests = [packet for packet in reported if packet["direction"] == "request"]
    assert len(requests) < len(reported)
    assert {packet["result"].partition(" -> ")[2] for packet in requests} == {"10.244.1.13:8080"}


def test_no_event_of_a_traced_packet_is_left_out() -> None:
    events = recorded("bridged")
    assert sum(len(packet.events) for packet in assembled(events)) == len(events)


def test_packet_that_another_program_traces_is_left_out() -> None:
    assert packets([event for event in recorded("bridged") if not event.table.startswith(TABLE_PREFIX)]) == []


def test_dropping_rule_is_the_last_step_and_the_fault() -> None:
    (packet,) = packets(recorded("dropped"))
    text = "rule 1 (handle 2) of chain inet foreign input drops it: ip daddr 10.96.0.7 drop"
    assert (packet["end"], packet["result"], packet["steps"][-1]["text"]) == ("dropped", text, text)
    assert (packet["steps"][-1]["owner"], packet["in_interface"]) == ("another program", "eth0")
    case = Case(NodeView({}, {}, {}, host_of([])), FLOW, Path(FLOW, "delivered", ""))
    fault = trace_fault(case, [packet])
    assert fault is not None
    assert (fault.name, fault.sentence.endswith(text)) == ("foreign-rule", True)


def test_dropping_policy_is_the_fault() -> None:
    (packet,) = packets(recorded("policy"))
    assert packet["result"] == "the policy of chain inet foreign input drops it"
    case = Case(NodeView({}, {}, {}, host_of([])), FLOW, Path(FLOW, "delivered", ""))
    fault = trace_fault(case, [packet])
    assert fault is not None
    assert fault.name == "foreign-policy"


def test_dropped_reply_and_drop_by_the_agent_are_no_fault() -> None:
    (packet,) = packets(recorded("dropped"))
    case = Case(NodeView({}, {}, {}, host_of([])), FLOW, Path(FLOW, "delivered", ""))
    ours = [*packet["steps"][:-1], {**packet["steps"][-1], "owner": "agent, Service a/b port c"}]
    assert trace_fault(case, [{**packet, "direction": "reply"}, {**packet, "steps": ours}]) is None


def test_rule_that_is_gone_has_its_handle() -> None:
    (packet,) = packets(recorded("dropped"), Ruleset({}, {}, {}))
    assert packet["result"] == "rule with handle 2 of chain inet foreign input drops it, which is gone"
    assert packet["in_interface"] == "2"


def test_packet_without_an_end_names_the_last_hook() -> None:
    (packet,) = packets(recorded("dropped")[:3])
    assert (packet["end"], packet["result"].startswith("no event after prerouting: the route")) == ("lost", True)


def test_looped_packet_is_one_packet() -> None:
    headers = Headers("tcp", "10.96.0.7", "10.96.0.7", 40000, 80, "SYN")
    last = TraceEvent(1, "ip", OWN, "postrouting", "policy", 0, "accept", out_link=1, headers=headers)
    end = TraceEvent(2, "ip", OWN, "delivered", "policy", 0, "accept", in_link=1, headers=headers)
    (packet,) = packets([mark(1, headers, "output", 0), last, mark(2, headers, link=1), end])
    assert (packet["end"], packet["in_interface"]) == ("delivered", "")


def test_reused_number_begins_another_packet() -> None:
    first, second = Headers("udp", "10.0.0.1", "10.0.0.2", 1, 80), Headers("udp", "10.0.0.1", "10.0.0.2", 2, 80)
    assert [packet["source_port"] for packet in packets([mark(1, first), mark(1, second)])] == [1, 2]
