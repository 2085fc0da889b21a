# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Endpoints added and removed in a manifest, under load: traffic must follow within a second and lose no request."""

from __future__ import annotations

import difflib
import json
import subprocess
import time
from typing import TYPE_CHECKING, NamedTuple

from . import cluster, namespaces, traffic
from .namespaces import NODES
from .screen import fail

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .cluster import Service
    from .namespaces import Lab, Namespace
    from .screen import Screen
    from .traffic import Answer

BAR = 1.0  # seconds after the edit
MANIFESTS = "/etc/kubenode/manifests"
SETTLE = 2.5  # seconds of load before, between and after the edits
INTERVAL = 0.02  # seconds between requests of one sender
AT_MOST = 3000  # requests of one sender


class Edit(NamedTuple):
    """Time of an edit: by each node's clock just before its manifest was replaced, and by this machine's before all."""

    begun: float
    on_node: dict[str, float]

    def moment(self, namespace: Namespace) -> float:
        """Return the time of the edit by the clock of a namespace that sends, never later than the edit itself."""
        return self.on_node[namespace.node] if namespace.node else self.begun


class Follow(NamedTuple):
    """Delay with which one virtual server followed the edits for one sender, in seconds; None: it did not follow."""

    source: str
    virtual_server: str
    sent: int
    lost: list[str]
    last_of_gone: float
    first_of_new: float | None

    @property
    def problems(self) -> list[str]:
        """Lost requests, and endpoints that followed too late or not at all."""
        texts = [f"lost a request: {error}" for error in self.lost]
        if self.last_of_gone > BAR:
            texts.append(f"the removed endpoint still answered a request sent {self.last_of_gone:.2f} s after the edit")
        if self.first_of_new is None:
            texts.append("the new endpoint never answered")
        elif self.first_of_new > BAR:
            texts.append(f"the new endpoint first answered {self.first_of_new:.2f} s after the edit")
        return [f"{self.source} to {self.virtual_server}: {text}" for text in texts]


class Editor:
    """Open shell on every node, so that an edit is everywhere at once, without the time of a login."""

    def __init__(self, lab: Lab, versions: Sequence[Service]) -> None:
        """Copy all versions of the manifest to the nodes, named by their numbers."""
        self.path = f"{MANIFESTS}/{versions[0].name}.yaml"
        for number, version in enumerate(versions):
            text = cluster.edited(version)
            namespaces.at_once(
                lambda node, name=f"{self.path}.{number}", text=text: lab.run(
                    namespaces.node(node), f"cat > {name}", text
                ),
                NODES,
            )
        self.shells = {
            node: subprocess.Popen(
                lab.command(namespaces.node(node), "bash -s"),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
                bufsize=1,
            )
            for node in NODES
        }
        for node in NODES:
            self._answer(node, "echo ready")

    def _write(self, node: str, command: str) -> None:
        self.shells[node].stdin.write(command + "\n")

    def _answer(self, node: str, command: str = "") -> str:
        if command:
            self._write(node, command)
        if not (line := self.shells[node].stdout.readline()):
            fail(f"{node}: the shell that edits {self.path} has ended")
        return line.strip()

    def edit(self, number: int) -> Edit:
        """Replace the manifest by a version, atomically on each node."""
        begun = time.time()
        for node in NODES:
            self._write(node, f"echo $EPOCHREALTIME; mv {self.path}.{number} {self.path} && echo done")
        moments = {node: float(self._answer(node)) for node in NODES}
        for node in NODES:
            if self._answer(node) != "done":
                fail(f"{node}: {self.path} could not be edited")
        return Edit(begun, moments)

    def close(self) -> None:
        """End the shells."""
        for shell in self.shells.values():
            shell.stdin.close()
            shell.wait(10)


class Sender:
    """Requests from one namespace to several virtual servers in turn, from now until :meth:`stop`.

    There are at most AT_MOST requests.
    """

    def __init__(self, lab: Lab, namespace: Namespace, service: Service, targets: list[tuple[str, int]]) -> None:
        self.namespace, self.targets = namespace, targets
        job = traffic.order(targets, service.protocol, AT_MOST, INTERVAL, until_end=True)
        self.process = subprocess.Popen(
            lab.command(namespace, traffic.sender(namespace)),
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
        self.process.stdin.write(json.dumps([job]) + "\n")
        self.process.stdin.flush()

    def stop(self) -> list[Answer]:
        """Stop sending; return all answers."""
        output, errors = self.process.communicate(timeout=60)
        if self.process.returncode:
            fail(f"{self.namespace.name}: the sender ended with status {self.process.returncode}:\n{errors.strip()}")
        return traffic.parse(output)[0]


def difference(before: Service, after: Service) -> str:
    """Return the edit as a unified diff."""
    name = f"{MANIFESTS}/{before.name}.yaml"
    old, new = (cluster.edited(service).splitlines() for service in (before, after))
    return "\n".join(difflib.unified_diff(old, new, name, name, n=1, lineterm=""))


def under_load(lab: Lab, screen: Screen, service: Service, gone: str, inside: str) -> list[Follow]:
    """Remove the pod ``gone`` and add the spare one, while the client and the pod ``inside`` send requests.

    Args:
        lab: lab of the demo.
        screen: shows the edits.
        service: present service; it has a node port.
        gone: name of the pod that is removed.
        inside: name of the pod that sends.
    """
    fewer = service.without(gone)
    more = fewer.including(cluster.SPARE)
    pod = namespaces.pod(next(pod for pod in service.pods if pod.name == inside))
    editor = Editor(lab, [fewer, more])
    senders = [
        Sender(lab, namespaces.client(), service, [(lab.address(node), service.node_port) for node in NODES]),
        Sender(lab, pod, service, [(service.address, service.port)]),
    ]
    time.sleep(SETTLE)
    screen.note(f"{gone} goes:\n{difference(service, fewer)}")
    out = editor.edit(0)
    time.sleep(SETTLE)
    screen.note(f"{cluster.SPARE.name} comes:\n{difference(fewer, more)}")
    into = editor.edit(1)
    time.sleep(SETTLE)
    answers = [sender.stop() for sender in senders]
    editor.close()
    return [
        follow(
            each.namespace,
            f"{service.protocol} {address}:{port}",
            [one for one in got if one.target == index],
            gone,
            out,
            into,
        )
        for each, got in zip(senders, answers, strict=True)
        for index, (address, port) in enumerate(each.targets)
    ]


def follow(
    namespace: Namespace, virtual_server: str, answers: list[Answer], gone: str, out: Edit, into: Edit
) -> Follow:
    """Measure the delay of both edits: the last request to the removed pod, the first answer of the new pod."""
    late = [answer.sent - out.moment(namespace) for answer in answers if answer.pod == gone]
    fresh = [
        answer.sent + answer.seconds - into.moment(namespace) for answer in answers if answer.pod == cluster.SPARE.name
    ]
    return Follow(
        source=namespace.name if not namespace.pod else f"{namespace.pod} on {namespace.node}",
        virtual_server=virtual_server,
        sent=len(answers),
        lost=[answer.seen for answer in answers if not answer.pod],
        last_of_gone=max(0.0, *late) if late else 0.0,
        first_of_new=min(fresh, default=None),
    )
