# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The demo's verdict about answers, without a lab: it fails when it should."""

from __future__ import annotations

from typing import Any

import pytest
from demo import cluster, namespaces, scale, traffic
from demo.traffic import Answer, Job

HOSTS = {"node1": "10.77.0.11", "node2": "10.77.0.12", "node3": "10.77.0.13", "client": "10.77.0.101"}
SERVICES = cluster.read()
WEB_1, WEB_2, WEB_3 = SERVICES["web"].pods


class PaperLab:
    """A fake lab that knows addresses only."""

    def address(self, host: str) -> str:
        return HOSTS[host]


LAB: Any = PaperLab()


def answers(*pairs: tuple[str | None, str]) -> list[Answer]:
    return [Answer(0, 100.0 + index, 0.01, pod, seen) for index, (pod, seen) in enumerate(pairs)]


def problems(job: Job, *pairs: tuple[str | None, str]) -> list[str]:
    return traffic.judge(LAB, job, answers(*pairs)).problems


FROM_POD = Job(namespaces.pod(WEB_1), SERVICES["web"])
FROM_NODE = Job(namespaces.node("node1"), SERVICES["web"])
TO_NODE_PORT = Job(namespaces.client(), SERVICES["web-nodeport"], via="node1")
TO_LOCAL = Job(namespaces.client(), SERVICES["web-local"], via="node2")
TO_STICKY = Job(namespaces.client(), SERVICES["web-sticky"], via="node1")

GOOD = {
    "pod": (FROM_POD, [("web-1", "10.244.1.1"), ("web-2", "10.244.1.11"), ("web-3", "10.244.1.11")]),
    "node": (FROM_NODE, [("web-1", "10.244.1.1"), ("web-2", "10.77.0.11"), ("web-3", "10.77.0.11")]),
    "node port": (TO_NODE_PORT, [("web-1", "10.244.1.1"), ("web-2", "10.77.0.11"), ("web-3", "10.77.0.11")]),
    "local": (TO_LOCAL, [("web-2", "10.77.0.101")] * 3),
    "sticky": (TO_STICKY, [("web-3", "10.77.0.11")] * 3),
}


@pytest.mark.parametrize("name", GOOD)
def test_expected_traffic_passes(name: str) -> None:
    job, pairs = GOOD[name]
    row = traffic.judge(LAB, job, answers(*pairs))
    assert row.problems == []
    assert row.sent == 3


@pytest.mark.parametrize("name", GOOD)
def test_a_lost_request_is_a_problem(name: str) -> None:
    job, pairs = GOOD[name]
    assert problems(job, *pairs, (None, "TimeoutError: timed out")) == ["request 4: TimeoutError: timed out"]


@pytest.mark.parametrize("name", GOOD)
def test_another_client_address_is_a_problem(name: str) -> None:
    job, pairs = GOOD[name]
    pod, _ = pairs[-1]
    (problem,) = problems(job, *pairs, (pod, "10.96.10.1"))
    assert problem.startswith(f"{pod} saw 10.96.10.1, expected {pairs[-1][1]}")


def test_an_endpoint_that_never_answers_is_a_problem() -> None:
    assert problems(FROM_POD, ("web-1", "10.244.1.1"), ("web-2", "10.244.1.11")) == [
        "answered by ['web-1', 'web-2'], expected each of ['web-1', 'web-2', 'web-3']"
    ]


def test_local_node_port_answer_of_other_node_is_a_problem() -> None:
    (problem,) = problems(TO_LOCAL, ("web-2", "10.77.0.101"), ("web-1", "10.77.0.101"))
    assert problem == "answered by ['web-1', 'web-2'], expected each of ['web-2']"


def test_two_endpoints_for_one_client_break_affinity() -> None:
    (problem,) = problems(TO_STICKY, ("web-3", "10.77.0.11"), ("web-2", "10.77.0.11"))
    assert problem.endswith("session affinity")


def test_a_pod_that_is_no_endpoint_is_a_problem() -> None:
    assert problems(TO_LOCAL, ("web-2", "10.77.0.101"), ("web-4", "10.77.0.101")) != []


EDIT_OUT = scale.Edit(10.0, {"node2": 10.1})
EDIT_IN = scale.Edit(20.0, {"node2": 20.1})


def followed(*lines: tuple[float, str | None]) -> scale.Follow:
    sent = [Answer(0, when, 0.01, pod, "x") for when, pod in lines]
    return scale.follow(namespaces.pod(WEB_2), "tcp 10.96.10.2:80", sent, "web-3", EDIT_OUT, EDIT_IN)


def test_traffic_that_follows_is_measured_from_the_edit() -> None:
    seen = followed((9.0, "web-3"), (10.3, "web-3"), (10.4, "web-1"), (20.5, "web-4"), (20.6, "web-1"))
    assert seen.problems == []
    assert seen.last_of_gone == pytest.approx(0.2)
    assert seen.first_of_new == pytest.approx(0.41)


@pytest.mark.parametrize(
    ("lines", "text"),
    [
        (
            [(9.0, "web-3"), (11.2, "web-3"), (20.5, "web-4")],
            "the removed endpoint still answered a request sent 1.10 s after",
        ),
        ([(9.0, "web-3"), (21.2, "web-4")], "the new endpoint first answered 1.11 s after the edit"),
        ([(9.0, "web-3"), (20.5, "web-1")], "the new endpoint never answered"),
        ([(9.0, None), (20.5, "web-4")], "lost a request: x"),
    ],
)
def test_traffic_that_does_not_follow_is_a_problem(lines: list[tuple[float, str | None]], text: str) -> None:
    (problem,) = followed(*lines).problems
    assert text in problem


def test_the_edit_changes_endpoints_only() -> None:
    service = SERVICES["web-nodeport"]
    unchanged = (cluster.MANIFESTS / "web-nodeport.yaml").read_text()
    assert cluster.edited(service) == unchanged
    lines = scale.difference(service, service.without("web-3").including(cluster.SPARE)).splitlines()
    changed = [line[1:].strip() for line in lines if line[:1] in "+-" and line[:3] not in ("+++", "---")]
    assert {"- 10.244.3.13", "- 10.244.2.14", "nodeName: node2", "name: web-4"} <= set(changed)
    assert all(not line.startswith(("clusterIP", "nodePort", "port:")) for line in changed)
