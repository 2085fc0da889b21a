# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Story of the demo, step by step.

The demo also checks everything that it shows. An unexpected result ends it.
"""

from __future__ import annotations

import signal
import sys
from typing import TYPE_CHECKING, NoReturn

from lab.errors import LabError

from . import cluster, explained, namespaces, playbook, pods, scale, traffic
from .namespaces import CLIENT, NAME, NODES, Lab
from .screen import DemoError, Screen, clock, fail
from .table import table
from .traffic import Job

if TYPE_CHECKING:
    from types import FrameType

    from .cluster import Service

NEXT = f"""\
The lab is still up; look around:
  molecule/lab/lab ssh {NAME} node1                            a shell on a node
  molecule/lab/lab ssh {NAME} node1 kubenode show              its virtual servers and who owns them
  molecule/lab/lab ssh {NAME} node1 kubenode plan              what the agent would change now: nothing
  molecule/lab/lab ssh {NAME} node1 kubenode explain --service default/web    why a connection arrives or does not
  molecule/lab/lab ssh {NAME} node1 journalctl -u kubenode-agent
  molecule/lab/lab ssh {NAME} node1 ipvsadm -Ln                the same by the kernel's own tool
  molecule/lab/lab exec {NAME} {CLIENT} curl http://{{address}}:30080   ask as the client does
Edit a manifest in {scale.MANIFESTS} on a node, or `ipvsadm -C` there, and watch the agent put things right.
Then docs/README.md: how to use it on your own nodes.
  make clean                                                removes the lab and all that `make` made"""


def boot(screen: Screen, services: dict[str, Service]) -> Lab:
    """Boot the nodes and make the pod network that a cluster has before a service proxy comes."""
    screen.heading("Three nodes and a client: real kernels, in a network namespace of their own")
    lab = Lab()
    everyone = cluster.pods(services)
    pods.start(lab, everyone, port=next(iter(services.values())).target_port)
    for pod in everyone:
        screen.note(f"pod {pod.name} {pod.address} on {pod.node}")
    copy_manifests(lab)
    for service in services.values():
        node_port = f", node port {service.node_port}" if service.node_port else ""
        screen.note(f"service {service.name} {service.protocol} {service.address}:{service.port}{node_port}")
    return lab


def copy_manifests(lab: Lab) -> None:
    """Copy the manifests to the agent's directory on each node."""
    lines = ["set -e", f"mkdir -p {scale.MANIFESTS}", f"cd {scale.MANIFESTS}"]
    lines += [f"cat > {path.name} <<'END'\n{path.read_text()}END" for path in sorted(cluster.MANIFESTS.glob("*.yaml"))]
    namespaces.at_once(lambda node: lab.run(namespaces.node(node), "sh", "\n".join([*lines, ""])), NODES)


def bootstrap(screen: Screen, lab: Lab) -> None:
    """Prepare the nodes and deploy the agent."""
    screen.heading("Bootstrap: nodes prepared, agent deployed, services converged")
    done = playbook.run(screen, lab.inventory)
    screen.passed(
        f"{len(done.recap)} nodes bootstrapped in {clock(done.seconds)}, {done.total('changed')} tasks changed"
        " something"
    )


def again(screen: Screen, lab: Lab) -> None:
    """Run the playbook again, also in check mode: nothing may change."""
    for title, options in (("The same again", ()), ("The same again as a dry run", ("--check", "--diff"))):
        screen.heading(f"{title}: nothing changes")
        done = playbook.run(screen, lab.inventory, *options)
        for node, counters in done.recap.items():
            if counters["changed"]:
                fail(f"{node}: changed={counters['changed']} on a run that must change nothing; which task is above")
        screen.passed(f"changed=0 on {len(done.recap)} nodes in {clock(done.seconds)}")


def jobs(services: dict[str, Service]) -> list[Job]:
    """Return the jobs: client to node ports, a pod and a node to ClusterIPs; the pod is also an endpoint (hairpin)."""
    client, node, pod = namespaces.client(), namespaces.node(NODES[0]), namespaces.pod(services["web"].pods[0])
    with_node_port = [service for service in services.values() if service.node_port]
    return [
        *(Job(client, service, via=via) for service in with_node_port for via in NODES),
        *(Job(pod, service) for service in services.values()),
        *(Job(node, service) for service in services.values()),
    ]


def balance(screen: Screen, lab: Lab, services: dict[str, Service]) -> None:
    """Send traffic; print which pod answered, and which client address it saw."""
    screen.heading("Traffic: who answers, and which client do the pods see?")
    wanted = jobs(services)
    screen.note(f"{sum(job.count for job in wanted)} requests, each over a new connection")
    results = traffic.send_all(lab, wanted)
    rows = [traffic.judge(lab, job, results[job]) for job in wanted]
    head = ("virtual server", "service", "from", "sent", "answered by", "client address seen")
    screen.text(table(head, [row[:6] for row in rows]))
    if problems := [f"{row.source} to {row.virtual_server}: {problem}" for row in rows for problem in row.problems]:
        fail("\n".join(problems))
    screen.passed(
        f"{sum(row.sent for row in rows)} requests, all answered by whom they should, all client addresses as they"
        " should be"
    )


def show(screen: Screen, lab: Lab) -> None:
    """Check that every node is converged, and print the view of one node."""
    screen.heading(f"What {NODES[0]} says of itself: kubenode status, kubenode show")
    statuses = namespaces.at_once(
        lambda node: lab.run(namespaces.node(node), "kubenode status"), NODES
    )  # fails if not converged
    screen.text(statuses[0])
    screen.text(lab.run(namespaces.node(NODES[0]), "kubenode show"))
    screen.passed("all nodes have converged")


def scaled(screen: Screen, lab: Lab, services: dict[str, Service]) -> None:
    """Remove an endpoint and add another, under load."""
    screen.heading("Scaled by editing a manifest, under load: traffic follows within a second, no request is lost")
    service = services["web-nodeport"]
    follows = scale.under_load(lab, screen, service, gone=service.pods[-1].name, inside=service.pods[1].name)
    head = ("virtual server", "from", "sent", "lost", "last to the one that went", "first answer of the new one")
    screen.text(
        table(
            head,
            [
                (each.virtual_server, each.source, each.sent, len(each.lost),
                 f"{each.last_of_gone:.2f} s after the edit",
                 "never" if each.first_of_new is None else f"{each.first_of_new:.2f} s after the edit")
                for each in follows
            ],
        )
    )  # fmt: skip
    if problems := [problem for each in follows for problem in each.problems]:
        fail("\n".join(problems))
    screen.passed(
        f"{sum(each.sent for each in follows)} requests, none lost; both edits followed within {scale.BAR:g} s"
    )


def explain(screen: Screen, lab: Lab, service: Service) -> None:
    """Explain one connection, then the same connection with a fault in its way."""
    screen.heading("Explained: why a connection arrives, and why it does not")
    screen.note(f"{service.pods[0].node}: {explained.command(service)}")
    explained.arrives(lab, service)
    screen.text(explained.explain(lab, service))
    explained.with_fault(screen, lab, service)
    screen.passed("kubenode explain names the fault; without the rule, the connection arrives again")


def tell(screen: Screen) -> None:
    """Run the whole demo.

    Raises:
        DemoError: a check or a command of the demo failed.
        LabError: the nodes could not be brought up.
    """
    services = cluster.read()
    lab = boot(screen, services)
    bootstrap(screen, lab)
    again(screen, lab)
    balance(screen, lab, services)
    show(screen, lab)
    scaled(screen, lab, services)
    explain(screen, lab, services["web"])
    screen.heading("Done")
    screen.text(screen.times())
    screen.text("\n" + NEXT.replace("{address}", lab.address(NODES[0])))


def _interrupted(number: int, _: FrameType | None) -> NoReturn:
    raise SystemExit(128 + number)


def main() -> int:
    """Run the demo; return 0, or 1 if it failed."""
    signal.signal(signal.SIGTERM, _interrupted)
    screen = Screen()
    try:
        tell(screen)
    except (DemoError, LabError) as error:
        print(f"\ndemo: failed after {clock(screen.elapsed)}, in step {len(screen.steps)}:\n{error}", file=sys.stderr)
        print(
            f"\nWhat is up stays up for you to look at (molecule/lab/lab ls); `molecule/lab/lab down {NAME}`"
            " removes it.",
            file=sys.stderr,
        )
        return 1
    except KeyboardInterrupt:
        print(f"\ndemo: interrupted; `molecule/lab/lab down {NAME}` removes what is up", file=sys.stderr)
        return 130
    return 0
