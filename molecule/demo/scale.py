# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Endpoints go and come by an edit of a manifest, under load: traffic must follow within a second and lose no request."""

from __future__ import annotations

import difflib
import time
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, NamedTuple

from . import cluster, places, traffic
from .places import NODES

if TYPE_CHECKING:
    from .cluster import Service
    from .places import Lab, Place
    from .screen import Screen
    from .traffic import Answer

BAR = 1.0  # seconds after the edit
MANIFESTS = "/etc/kubenode/manifests"
SETTLE = 2.5  # seconds of load before, between and after the edits
INTERVAL = 0.02  # seconds between requests of one sender


class Edit(NamedTuple):
    """When a manifest was in place: by each node's clock, and by this machine's before it was told to."""

    begun: float
    on_node: dict[str, float]

    def moment(self, place: Place) -> float:
        """Return when it was edited by the clock of a place that sends: never later than it was."""
        return self.on_node[place.node] if place.node else self.begun


class Follow(NamedTuple):
    """How one virtual server followed the edits, as seen by one sender; seconds, None = not at all."""

    source: str
    virtual_server: str
    sent: int
    lost: list[str]
    last_of_gone: float
    first_of_new: float | None

    @property
    def problems(self) -> list[str]:
        """What is not as it should be."""
        found = [f"lost a request: {error}" for error in self.lost]
        if self.last_of_gone > BAR:
            found.append(f"the removed endpoint still answered a request sent {self.last_of_gone:.2f} s after the edit")
        if self.first_of_new is None:
            found.append("the new endpoint never answered")
        elif self.first_of_new > BAR:
            found.append(f"the new endpoint first answered {self.first_of_new:.2f} s after the edit")
        return [f"{self.source} to {self.virtual_server}: {text}" for text in found]


def edit(lab: Lab, service: Service) -> Edit:
    """Put a service's manifest with the given pods on all nodes, each time in one piece."""
    text = cluster.edited(service)
    path = f"{MANIFESTS}/{service.name}.yaml"

    def stage(node: str) -> str:
        return lab.run(places.node(node), f"cat > {path}.edited", text)

    def rename(node: str) -> float:
        return float(lab.run(places.node(node), f"date +%s.%N; mv {path}.edited {path}"))

    places.at_once(stage, NODES)
    begun = time.time()
    return Edit(begun, dict(zip(NODES, places.at_once(rename, NODES), strict=True)))


def difference(before: Service, after: Service) -> str:
    """Return the edit as a unified diff."""
    name = f"{MANIFESTS}/{before.name}.yaml"
    old, new = (cluster.edited(service).splitlines() for service in (before, after))
    return "\n".join(difflib.unified_diff(old, new, name, name, n=1, lineterm=""))


def under_load(lab: Lab, screen: Screen, service: Service, gone: str, inside: str) -> list[Follow]:
    """Take the pod ``gone`` away and put the spare one in, while the client and the pod ``inside`` send requests.

    Args:
        lab: the demo's.
        screen: shows the edits.
        service: as it is now; it has a node port.
        gone: name of the pod that goes.
        inside: name of the pod that sends.
    """
    fewer = service.without(gone)
    more = fewer.including(cluster.SPARE)
    sender = places.pod(next(pod for pod in service.pods if pod.name == inside))
    targets = {
        places.client(): [[lab.address(node), service.node_port] for node in NODES],
        sender: [[service.address, service.port]],
    }
    count = int(3 * SETTLE / INTERVAL)

    def load(place: Place) -> list[Answer]:
        order = {"protocol": service.protocol, "targets": targets[place], "count": count, "interval": INTERVAL}
        return traffic.send(lab, place, [order])[0]

    with ThreadPoolExecutor(len(targets)) as pool:
        loads = {place: pool.submit(load, place) for place in targets}
        time.sleep(SETTLE)
        screen.note(f"{gone} goes:\n{difference(service, fewer)}")
        out = edit(lab, fewer)
        time.sleep(SETTLE)
        screen.note(f"{cluster.SPARE.name} comes:\n{difference(fewer, more)}")
        into = edit(lab, more)
        answers = {place: each.result() for place, each in loads.items()}
    return [
        follow(place, f"{service.protocol} {address}:{port}", [a for a in answers[place] if a.target == index], gone, out, into)
        for place in targets
        for index, (address, port) in enumerate(targets[place])
    ]


def follow(place: Place, virtual_server: str, answers: list[Answer], gone: str, out: Edit, into: Edit) -> Follow:
    """Measure how answers followed the two edits: by when a request was sent, or for a first answer when it came."""
    late = [answer.sent - out.moment(place) for answer in answers if answer.pod == gone]
    fresh = [answer.sent + answer.seconds - into.moment(place) for answer in answers if answer.pod == cluster.SPARE.name]
    return Follow(
        source=place.name if not place.pod else f"{place.pod} on {place.node}",
        virtual_server=virtual_server,
        sent=len(answers),
        lost=[answer.seen for answer in answers if not answer.pod],
        last_of_gone=max(0.0, *late) if late else 0.0,
        first_of_new=min(fresh, default=None),
    )
