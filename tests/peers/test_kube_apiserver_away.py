# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A real kube-apiserver goes away, stands still, forgets, or comes back as it was before.

The node stays as it is, and only differences follow.

Run as test_kube_apiserver.py is.
"""

from __future__ import annotations

import signal
from pathlib import Path

from support.agent.process import AgentProcess, eventually
from support.agent.served import SLOW, problems, real_servers, serve, start, steps, steps_since
from support.agent.watched_source import SERVICES
from support.clusters.cluster import Cluster
from support.clusters.kube_apiserver import ROLE, KubeApiServer
from support.processes.namespace import sh

from kubenode.manifests.documents import ObjectKey

ONE_MORE = {"virtual_server create": 1, "real_server create": 1, "address create": 1, "member create": 2}


def drifts_and_heals(address: str) -> None:
    sh("ipvsadm", "-D", "-t", f"{address}:80")
    eventually(lambda: real_servers(address), SLOW)


def healthy(agent: AgentProcess) -> bool:
    return not problems(agent).keys() - {"/api/v1/nodes"}  # there is none


def delete(cluster: Cluster, name: str) -> None:
    for kind in ("Service", "EndpointSlice"):
        cluster.delete(ObjectKey(kind, "default", name))


def test_killed_and_restarted_api_is_followed_again(
    agent: AgentProcess, api: KubeApiServer, cluster: Cluster, users: dict[str, Path]
) -> None:
    first, second = cluster.names(2)
    address = serve(cluster, first)
    start(agent, users[ROLE])
    agent.converged(SLOW)
    api.kill()
    eventually(
        lambda: "cannot be reached: connection refused; what is known" in problems(agent).get(SERVICES, ""), SLOW
    )
    drifts_and_heals(address)
    before = steps()
    api.up()
    cluster.anew()
    other = serve(cluster, second)
    eventually(lambda: real_servers(other), SLOW)
    eventually(lambda: healthy(agent), SLOW)
    assert steps_since(before) == ONE_MORE


def test_stopped_api_process_is_noticed(
    agent: AgentProcess, api: KubeApiServer, cluster: Cluster, users: dict[str, Path]
) -> None:
    """Its kernel goes on to acknowledge whatever it is sent: only the silence tells."""
    first, second = cluster.names(2)
    address = serve(cluster, first)
    start(agent, users[ROLE])
    agent.converged(SLOW)
    api.pause()
    eventually(lambda: "cannot be reached: no answer" in problems(agent).get(SERVICES, ""), 3 * SLOW)
    drifts_and_heals(address)
    before = steps()
    api.go_on()
    cluster.anew()
    other = serve(cluster, second)
    eventually(lambda: real_servers(other), SLOW)
    eventually(lambda: healthy(agent), SLOW)
    assert steps_since(before) == ONE_MORE


def test_expired_version_is_listed_again(
    agent: AgentProcess, api: KubeApiServer, cluster: Cluster, users: dict[str, Path]
) -> None:
    kept, gone, new = cluster.names(3)
    addresses = [serve(cluster, name) for name in (kept, gone)]
    start(agent, api.through(users[ROLE], cluster.relay.port))
    agent.converged(SLOW)
    before = steps()
    cluster.relay.down()
    eventually(lambda: SERVICES in problems(agent), SLOW)
    delete(cluster, gone)
    other = serve(cluster, new)
    api.compact(cluster.get(SERVICES, limit="1")["metadata"]["resourceVersion"])
    api.kill()
    api.up()
    cluster.anew()
    asked = len(api.asked(ROLE, SERVICES))
    cluster.relay.up()
    eventually(lambda: real_servers(other) and not real_servers(addresses[1]), SLOW)
    eventually(lambda: healthy(agent), SLOW)
    assert [
        request
        for request in api.asked(ROLE, SERVICES)[asked:]
        if "limit" in request.query and "resourceVersion" not in request.query
    ]
    assert real_servers(addresses[0])
    changed = steps_since(before)
    assert changed["virtual_server create"] == changed["virtual_server delete"] == 1, changed
    assert changed["real_server create"] == 1, changed


def test_agent_starts_without_the_api(
    agent: AgentProcess, api: KubeApiServer, cluster: Cluster, users: dict[str, Path]
) -> None:
    kept, gone, new = cluster.names(3)
    addresses = [serve(cluster, name) for name in (kept, gone)]
    start(agent, api.through(users[ROLE], cluster.relay.port))
    agent.converged(SLOW)
    eventually((agent.directory / "state/objects").exists, SLOW)
    agent.stop()
    cluster.relay.down()
    sh("ipvsadm", "-C")  # as after a reboot
    delete(cluster, gone)
    other = serve(cluster, new)
    start(agent, api.through(users[ROLE], cluster.relay.port))
    agent.converged(SLOW)
    assert all(real_servers(address) for address in addresses)
    assert "are restored from" in problems(agent)["snapshot"]
    before = steps()
    cluster.relay.up()
    eventually(lambda: real_servers(other) and not real_servers(addresses[1]), SLOW)
    eventually(lambda: healthy(agent), SLOW)
    changed = steps_since(before)
    assert changed["virtual_server create"] == changed["virtual_server delete"] == 1, changed


def test_api_restored_from_backup_is_followed(
    agent: AgentProcess, api: KubeApiServer, cluster: Cluster, users: dict[str, Path]
) -> None:
    """From a backup of etcd, whose versions are far behind ours."""
    first, lost, busy, new = cluster.names(4)
    address = serve(cluster, first)
    api.backup()
    cluster.anew()
    forgotten = serve(cluster, lost)
    start(agent, users[ROLE])
    agent.converged(SLOW)
    last = serve(cluster, busy)
    for number in range(300):
        cluster.label(ObjectKey("Service", "default", busy), {"number": str(number)})
    eventually(lambda: real_servers(last), SLOW)
    api.restore()
    cluster.anew()
    other = serve(cluster, new)
    eventually(lambda: real_servers(other) and not real_servers(forgotten) and not real_servers(last), SLOW)
    eventually(lambda: healthy(agent), SLOW)
    assert real_servers(address)


def test_repeatedly_killed_agent_recovers(
    agent: AgentProcess, api: KubeApiServer, cluster: Cluster, users: dict[str, Path]
) -> None:
    address = serve(cluster, cluster.run)
    start(agent, users[ROLE])
    agent.converged(SLOW)
    for _time in range(3):
        agent.stop(signal.SIGKILL)
        start(agent, users[ROLE])
        agent.converged(SLOW)
        assert real_servers(address)
        assert steps() == {}
