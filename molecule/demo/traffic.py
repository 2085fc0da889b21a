# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Traffic through the services: requests by namespace, pods that must answer, client addresses that they must see."""

from __future__ import annotations

import json
from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

from . import namespaces, pods
from .namespaces import CLIENT, DIRECTORY, ON_NODE

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .cluster import Pod, Service
    from .namespaces import Lab, Namespace


class Job(NamedTuple):
    """Requests from one namespace to one virtual server of a service.

    ``via`` is the node whose node port is requested; "" requests the ClusterIP.
    """

    namespace: Namespace
    service: Service
    via: str = ""
    count: int = 30

    def target(self, lab: Lab) -> tuple[str, int]:
        """Return address and port."""
        if self.via:
            return lab.address(self.via), self.service.node_port
        return self.service.address, self.service.port

    def name(self, lab: Lab) -> str:
        """Return the virtual server in the notation of ipvsadm."""
        return "{} {}:{}".format(self.service.protocol, *self.target(lab))


class Answer(NamedTuple):
    """Outcome of one request.

    ``pod`` answered and saw the client as ``seen``. Or ``pod`` is None, and ``seen`` is the error.
    """

    target: int
    sent: float
    seconds: float
    pod: str | None
    seen: str


def sender(namespace: Namespace) -> str:
    """Return the shell command that sends requests from a namespace (see onnode/ask.py)."""
    return f"python3 -S {DIRECTORY if namespace.node else ON_NODE}/ask.py"


def order(
    targets: Sequence[tuple[str, int]], protocol: str, count: int, interval: float = 0.0, **more: object
) -> dict[str, object]:
    """Return one job for a sender."""
    return {"targets": targets, "protocol": protocol, "count": count, "interval": interval, "until_end": False, **more}


def parse(output: str) -> list[list[Answer]]:
    """Parse a sender's output; return the answers of each of its jobs."""
    return [[Answer(*line) for line in lines] for lines in json.loads(output)]


def send_all(lab: Lab, jobs: Sequence[Job]) -> dict[Job, list[Answer]]:
    """Send all jobs: the namespaces at the same time, each namespace its jobs in order."""
    by_namespace: dict[Namespace, list[Job]] = {}
    for job in jobs:
        by_namespace.setdefault(job.namespace, []).append(job)

    def one(namespace: Namespace) -> list[tuple[Job, list[Answer]]]:
        mine = by_namespace[namespace]
        orders = [order([job.target(lab)], job.service.protocol, job.count) for job in mine]
        results = parse(lab.run(namespace, sender(namespace), json.dumps(orders) + "\n"))
        return list(zip(mine, results, strict=True))

    return {job: answers for results in namespaces.at_once(one, by_namespace) for job, answers in results}


class Seen(NamedTuple):
    """Client address that a pod must see, and the reason."""

    address: str
    why: str


def expected_client(lab: Lab, job: Job, pod: Pod) -> Seen:
    """Return the client address that ``pod`` must see in ``job``, by kube-proxy's rules for masquerading."""
    asked = job.via or job.namespace.node
    if job.namespace.name == CLIENT:
        if job.service.local:
            return Seen(lab.address(CLIENT), "preserved")
        return Seen(_node_towards(lab, asked, pod), "masqueraded by the node")
    if not job.namespace.pod:
        return Seen(_node_towards(lab, asked, pod), "the node itself")
    if job.namespace.pod == pod.name:
        return Seen(pods.gateway(pod.node), "masqueraded (hairpin)")
    sender = next(each for each in (*job.service.pods, pod) if each.name == job.namespace.pod)
    return Seen(sender.address, "preserved")


def _node_towards(lab: Lab, node: str, pod: Pod) -> str:
    """Return a node's source address towards a pod: that of its outgoing interface."""
    return pods.gateway(node) if pod.node == node else lab.address(node)


def must_answer(job: Job) -> set[str]:
    """Return the pods that must all answer; for a sticky service, exactly one of them must."""
    local = job.service.local and job.via
    return {pod.name for pod in job.service.pods if not local or pod.node == job.via}


class Row(NamedTuple):
    """Row of the table: the requests of one namespace to one virtual server."""

    virtual_server: str
    service: str
    source: str
    sent: int
    answered: str
    client: str
    problems: list[str]


def judge(lab: Lab, job: Job, answers: Sequence[Answer]) -> Row:
    """Compare the answers of a job with the expected pods and client addresses."""
    by_pod = Counter(answer.pod for answer in answers if answer.pod)
    problems = [f"request {index}: {answer.seen}" for index, answer in enumerate(answers, 1) if not answer.pod]
    wanted = must_answer(job)
    if job.service.sticky:
        if len(by_pod) != 1:
            problems.append(
                f"answered by {sorted(by_pod)}, expected one and the same of {sorted(wanted)}: session affinity"
            )
    elif set(by_pod) != wanted:
        problems.append(f"answered by {sorted(by_pod)}, expected each of {sorted(wanted)}")
    kinds: Counter[str] = Counter()
    known = {pod.name: pod for pod in job.service.pods}
    for answer in answers:
        if answer.pod not in known:
            continue
        expected = expected_client(lab, job, known[answer.pod])
        if answer.seen == expected.address:
            kinds[expected.why] += 1
        else:
            problems.append(f"{answer.pod} saw {answer.seen}, expected {expected.address} ({expected.why})")
    return Row(
        virtual_server=job.name(lab),
        service=job.service.name,
        source=job.namespace.name if not job.namespace.pod else f"{job.namespace.pod} on {job.namespace.node}",
        sent=len(answers),
        answered=" ".join(f"{pod}:{count}" for pod, count in sorted(by_pod.items())),
        client=", ".join(f"{why} {count}" for why, count in sorted(kinds.items(), reverse=True)),
        problems=problems,
    )
