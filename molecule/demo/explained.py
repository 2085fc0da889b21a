# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One explained flow of the demo, and a fault in its way: ``kubenode explain`` must name the fault."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from . import namespaces, traffic
from .screen import fail
from .traffic import Job

if TYPE_CHECKING:
    from .cluster import Service
    from .namespaces import Lab
    from .screen import Screen

_REQUESTS = 3


def explain(lab: Lab, service: Service, options: str = "") -> str:
    """Return the explanation, on the pod's node, of a connection from the service's first pod to its ClusterIP."""
    # A fault is exit status 1: the demo judges the answer itself.
    return lab.run(_node(service), f"{command(service)}{options} || test $? = 1")


def command(service: Service) -> str:
    """Return the command that explains this connection."""
    return f"kubenode explain {service.protocol} {service.pods[0].address} {service.address}:{service.port}"


def verdict(lab: Lab, service: Service) -> dict[str, Any]:
    """Return the explanation as data."""
    answer: dict[str, Any] = json.loads(explain(lab, service, " --format json"))
    return answer


def rule(service: Service) -> str:
    """Return the rule of another program that drops the packets to the service."""
    return f"INPUT -d {service.address} -j DROP"


def with_fault(screen: Screen, lab: Lab, service: Service) -> None:
    """Drop the service's packets by a rule of another program; explain, remove the rule, and explain again.

    Raises:
        DemoError: the fault is not named, or the connection does not arrive afterwards.
    """
    screen.note(f"another program drops these packets: iptables -I {rule(service)}")
    lab.run(_node(service), f"iptables -I {rule(service)}")
    try:
        _lost(lab, service)
        fault = verdict(lab, service)["fault"]
        screen.text(explain(lab, service))
        if fault is None or fault["name"] != "foreign-rule" or "chain INPUT" not in fault["text"]:
            fail(f"`{command(service)}` names {fault}, expected the rule of chain INPUT")
    finally:
        lab.run(_node(service), f"iptables -D {rule(service)}")
    screen.note(f"the remedy: iptables -D {rule(service)}")
    arrives(lab, service)


def arrives(lab: Lab, service: Service) -> None:
    """Check that the connection arrives, as explained and in fact.

    Raises:
        DemoError: it does not.
    """
    answer = verdict(lab, service)
    if answer["verdict"] != "arrives":
        fail(f"`{command(service)}` says {answer['verdict']}: {answer['summary']}")
    lost = [seen for pod, seen in _answers(lab, service, _REQUESTS) if pod is None]
    if lost:
        fail(f"`{command(service)}` says that the connection arrives, and it does not: {lost[0]}")


def _lost(lab: Lab, service: Service) -> None:
    for pod, _seen in _answers(lab, service, 1):
        if pod is not None:
            fail(f"{pod} answers although a rule drops the packets: {rule(service)}")


def _answers(lab: Lab, service: Service, count: int) -> list[tuple[str | None, str]]:
    job = Job(namespaces.pod(service.pods[0]), service, count=count)
    return [(answer.pod, answer.seen) for answer in traffic.send_all(lab, [job])[job]]


def _node(service: Service) -> namespaces.Namespace:
    return namespaces.node(service.pods[0].node)
