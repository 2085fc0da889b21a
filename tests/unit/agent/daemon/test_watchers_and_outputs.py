# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Effects of passes on metrics and health, in a real agent that does not execute its passes."""

from __future__ import annotations

import json
import socket
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import pytest
from support.agent.idle import LINES, NOTHING, Clock
from support.clusters import objects as make

from kubenode.daemon.agent import Agent
from kubenode.daemon.outputs.health_output import _health_check_addresses
from kubenode.daemon.outputs.pass_metrics import _TRIGGER_TIME, _trigger
from kubenode.daemon.outputs.systemd import StatusLine
from kubenode.daemon.watchers_and_outputs import WatchersAndOutputs
from kubenode.engine.errors import KernelError
from kubenode.engine.kernel import Failure
from kubenode.engine.model.ipset import MemberKey
from kubenode.engine.model.iptables import ChainKey
from kubenode.engine.model.ipvs import RealServerKey, VirtualServerKey
from kubenode.engine.model.link import AddressKey
from kubenode.engine.plan import Step


def parts(agent: Agent) -> WatchersAndOutputs:
    assert agent.lifecycle.parts is not None
    return agent.lifecycle.parts


def status_line(agent: Agent) -> StatusLine:
    return next(subscriber for subscriber in agent.passes._subscribers if isinstance(subscriber, StatusLine))


def values(agent: Agent) -> dict[str, float]:
    """Return the current metrics, by name with labels."""
    text = parts(agent).metrics.text()
    return {
        name: float(value)
        for name, _blank, value in (line.rpartition(" ") for line in text.splitlines())
        if name[0] != "#"
    }


def timestamps(agent: Agent, family: str) -> tuple[float, float]:
    """Return when a pass was last requested, and when one last succeeded (0: never)."""
    metrics, sync = values(agent), "kubeproxy_sync_proxy_rules_last_"
    labels = f'{{ip_family="{family}"}}'
    return metrics[f"{sync}queued_timestamp_seconds{labels}"], metrics.get(f"{sync}timestamp_seconds{labels}", 0.0)


def test_failed_pass_leaves_queued_after_synced_timestamp(agent: Agent) -> None:
    agent.passes._publish(NOTHING, "start")
    queued, synced = timestamps(agent, "IPv4")
    assert queued < synced
    agent.passes._trouble(KernelError("no memory"))
    queued, unchanged = timestamps(agent, "IPv4")
    assert queued > unchanged == synced
    assert values(agent)['kubenode_problems{about="node"}'] == 1
    agent.passes.record.trouble = ""
    agent.passes._publish(NOTHING, "retry")
    assert 'kubenode_problems{about="node"}' not in values(agent)


def test_failed_rules_count_for_their_family_only(agent: Agent) -> None:
    step = Step("chain", ChainKey(6, "nat", "KUBE-SERVICES"), None, ())
    agent.passes.reconciler.failing = {"chain": {step.key}}
    agent.passes._publish(NOTHING._replace(failed=[Failure(step, "refused")]), "start")
    agent.passes._publish(NOTHING._replace(full=False), "event")  # an unrelated pass
    metrics = values(agent)
    assert metrics['kubeproxy_sync_proxy_rules_iptables_restore_failures_total{ip_family="IPv6"}'] == 1
    assert 'kubeproxy_sync_proxy_rules_iptables_restore_failures_total{ip_family="IPv4"}' not in metrics
    assert timestamps(agent, "IPv6")[1] == 0 < timestamps(agent, "IPv4")[1]
    assert not parts(agent).health_output.health.healthy


def syncs(agent: Agent, family: str) -> float | None:
    """Return the number of passes counted for a family; None if the metric is missing."""
    return values(agent).get(f'kubeproxy_sync_proxy_rules_duration_seconds_count{{ip_family="{family}"}}')


FOUR, SIX = VirtualServerKey("tcp", "10.96.0.1", 80, 4), VirtualServerKey("tcp", "fd00::1", 80, 6)


@pytest.mark.parametrize(
    ("kind", "key", "family"),
    [
        ("virtual_server", FOUR, "IPv4"),
        ("real_server", RealServerKey(SIX, "fd01::1", 80), "IPv6"),
        ("member", MemberKey("KUBE-6-CLUSTER-IP", "fd00::1,tcp:80"), "IPv6"),
        ("set", "KUBE-CLUSTER-IP", "IPv4"),
        ("address", AddressKey("kube-ipvs0", "fd00::1", 128), "IPv6"),
        ("chain", ChainKey(4, "nat", "KUBE-SERVICES"), "IPv4"),
        ("sysctl", "net.ipv4.ip_forward", ""),
    ],
)
def test_pass_counts_for_the_families_of_its_steps(agent: Agent, kind: str, key: Any, family: str) -> None:
    agent.passes._publish(NOTHING._replace(full=False, done=[Step(kind, key, None, ())]), "event")
    assert {name: syncs(agent, name) for name in ("IPv4", "IPv6")} == {
        name: 1.0 if name == family else None for name in ("IPv4", "IPv6")
    }


def test_full_pass_counts_for_the_families_that_are_served(agent: Agent) -> None:
    agent.passes.reconciler.want = {"virtual_server": {FOUR: None}}
    agent.passes._publish(NOTHING, "period")
    assert (syncs(agent, "IPv4"), syncs(agent, "IPv6")) == (1, None)
    agent.passes.reconciler.want = {"virtual_server": {FOUR: None, SIX: None}}
    agent.passes._publish(NOTHING, "period")
    agent.passes._publish(NOTHING._replace(full=False), "event")
    assert (syncs(agent, "IPv4"), syncs(agent, "IPv6")) == (2, 1)


def test_refused_step_is_retried_with_backoff(agent: Agent) -> None:
    step = Step("chain", ChainKey(6, "nat", "KUBE-SERVICES"), None, ())
    agent.passes.reconciler.known, agent.passes.reconciler.failing = True, {"chain": {step.key}}
    for _time in range(4):
        agent.passes._passed(NOTHING._replace(failed=[Failure(step, "no")]), "retry")
        agent.passes._passed(NOTHING._replace(full=False), "event")
    assert agent.passes._backoff == 16
    assert agent.passes.record.failures == {step.describe(): "no"}
    agent.passes.reconciler.failing = {}
    agent.passes._passed(NOTHING._replace(full=False, done=[step]), "event")
    assert agent.passes._backoff == 1
    assert agent.passes.record.failures == {}


def test_pass_after_a_wait_needs_no_retry(agent: Agent) -> None:
    """The event of the complete lists makes the pass. A retry would compare a large node once more, for nothing."""
    agent.passes._wait(1.0)
    agent.passes.reconciler.known = True
    agent.passes._passed(NOTHING, "event")
    assert agent.passes._retry is not None
    assert not agent.passes._retry.pending


def test_changes_add_up_until_a_pass(agent: Agent, tmp_path: Path) -> None:
    agent.passes._synced_at = float("inf")
    for number in (1, 2):
        (tmp_path / f"manifests/{number}.json").write_text(
            json.dumps(make.service(f"s{number}", [f"10.96.0.{number}"]))
        )
        parts(agent).use_changes({f"{number}.json"})
    pending = "kubeproxy_sync_proxy_rules_service_changes_pending"
    assert values(agent)[pending] == 2
    agent.passes._publish(NOTHING, "event")
    assert values(agent)[pending] == 0
    assert values(agent)["kubeproxy_sync_proxy_rules_service_changes_total"] == 2


@pytest.mark.parametrize(
    ("reason", "done", "failed", "is_logged"),
    [("start", 0, 0, True), ("retry", 0, 1, True), ("period", 0, 0, False), ("period", 1, 0, True),
     ("event", 1, 0, False), ("event", 1, 1, True), ("draining", 1, 0, False), ("reload", 0, 0, True),
     ("kernel event", 1, 0, True), ("kernel event", 0, 0, False), ("events lost", 0, 0, False)],
)  # fmt: skip
def test_passes_of_events_are_logged_at_debug(
    agent: Agent, reason: str, done: int, failed: int, is_logged: bool
) -> None:
    """A line for each change would be millions a day."""
    step = Step("chain", ChainKey(6, "nat", "KUBE-SERVICES"), None, ())
    agent.passes._passed(
        NOTHING._replace(full=reason != "event", done=[step] * done, failed=[Failure(step, "no")] * failed), reason
    )
    assert any(line.startswith(("<6>converged", "<4>converged in part")) for line in LINES) is is_logged


def test_repeated_drift_is_logged_within_the_quota(agent: Agent) -> None:
    step = Step("chain", ChainKey(6, "nat", "KUBE-SERVICES"), None, ())
    other = step._replace(key=ChainKey(6, "nat", "KUBE-MARK-MASQ"))
    for reason in ("kernel event", "period") * 100:
        agent.passes._passed(NOTHING._replace(done=[step], drift=[step]), reason)
        agent.passes._passed(NOTHING._replace(done=[step], drift=[step], failed=[Failure(other, "no")]), reason)
    assert len(LINES) == 4, LINES  # repaired drift, a failed step, and one line for each reason
    assert values(agent)['kubenode_drift_healed_total{kind="chain"}'] == 400


def test_changes_within_min_sync_period_share_one_pass(
    agent: Agent, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    passes: list[tuple[bool, str]] = []
    monkeypatch.setattr(agent.passes, "_pass", lambda whole, reason: passes.append((whole, reason)))
    agent.passes._synced_at = clock.now - 31
    agent.passes.changed()
    assert passes == [(False, "event")]  # the last pass is long ago
    agent.passes._synced_at = clock.now
    for _time in range(3):
        agent.passes.changed()
    assert len(passes) == 1
    waiting = [timer for _when, _number, timer in agent.passes.loop._timers if timer.pending]
    assert [timer.when - agent.passes._synced_at for timer in waiting] == [30]
    assert waiting[0].callback is not None
    waiting[0].callback()
    assert len(passes) == 2


def test_dump_logs_desired_state_and_problems(agent: Agent, clock: Clock, tmp_path: Path) -> None:
    web = make.service("web", ["10.96.0.10"], [make.port(80, "http")])
    endpoint = make.piece("web", [make.endpoint("10.244.1.1", "n1")], [make.port(8080, "http")])
    bad = make.service("bad", ["10.96.0.11"], [make.port(70000)])
    (tmp_path / "manifests/a.json").write_text(json.dumps({"kind": "List", "items": [web, endpoint, bad]}))
    agent.passes.desired.refresh()
    changes, whole = agent.passes.desired.take()
    agent.passes.reconciler.accept(changes, whole=whole)
    server = VirtualServerKey("tcp", "10.96.0.10", 80, 4)
    agent.passes.reconciler.draining = {RealServerKey(server, "10.244.1.9", 8080): clock.now - 7}
    agent.lifecycle._dump()
    assert all(line.startswith("<6>state ") for line in LINES)
    text = "".join(LINES)
    assert '<6>state items="{' in text
    assert (
        '<6>state problem about=Service object=ns1/bad reason="Service ns1/bad: spec.ports[0].port is 70000, ' in text
    )
    wanted = 'object=ns1/web port=http server="tcp 10.96.0.10:80" scheduler=rr real="10.244.1.1:8080=1"'
    assert f"<6>state virtual server {wanted}\n" in text
    assert '<6>state draining object=ns1/web real_server="10.244.1.9:8080 of tcp 10.96.0.10:80" seconds=7\n' in text


def test_systemd_status_is_sent_once_a_second(agent: Agent, monkeypatch: pytest.MonkeyPatch) -> None:
    sent: list[str] = []
    monkeypatch.setattr(agent.notifier, "status", sent.append)
    for _time in range(3):
        agent.passes._passed(NOTHING, "retry")
    assert len(sent) == 3  # units that order themselves after the agent have not started yet
    agent.notifier.started = True
    for _time in range(50):
        agent.passes._passed(NOTHING, "event")
    assert len(sent) == 3
    telling = status_line(agent)._timer
    assert telling is not None
    assert telling.callback is not None
    agent.passes.record.trouble = "no memory"
    status_line(agent)._sent_at -= 1
    telling.callback()
    assert sent[3:] == ["waiting: no memory"]


@pytest.mark.parametrize(
    "junk", [None, "text", ["list"], {"endpoints.kubernetes.io/last-change-trigger-time": 7}, {1: 2}]
)
def test_invalid_trigger_annotation_is_ignored(agent: Agent, tmp_path: Path, junk: Any) -> None:
    piece = make.piece("web", [make.endpoint("10.244.1.1", "n1")], [make.port(8080, "http")])
    piece["metadata"]["annotations"] = junk
    (tmp_path / "manifests/a.json").write_text(json.dumps(piece))
    parts(agent).use_changes({"a.json"})
    assert values(agent)["kubeproxy_sync_proxy_rules_endpoint_changes_total"] == 1


@pytest.mark.parametrize(
    ("text", "moment"),
    [("2026-11-27T05:52:24Z", 1795758744.0), ("2026-11-27T05:52:24.500000001Z", 1795758744.500000001), ("at 5", 0.0)],
)
def test_trigger_time_is_in_utc(text: str, moment: float) -> None:
    assert _trigger({"metadata": {"annotations": {_TRIGGER_TIME: text}}}) == moment


def free_port() -> int:
    with socket.create_server(("::", 0), family=socket.AF_INET6, dualstack_ipv6=True) as server:
        return int(server.getsockname()[1])


@pytest.mark.parametrize("family", [4, 6])
@pytest.mark.parametrize(("ips", "families"), [(["10.96.0.10", "fd00::10"], {4, 6}), (["10.96.0.10"], {4})])
def test_o38_health_check_port_answers_both_families_alike(
    agent: Agent, tmp_path: Path, ips: list[str], families: set[int], family: int
) -> None:
    """kube-proxy answers 503 in a family without a local endpoint, and refuses connections in an unserved family."""
    port = free_port()
    balancer = {"kind": "LoadBalancer", "externalTrafficPolicy": "Local", "healthCheckNodePort": port}
    names = [f"IPv{each}" for each in sorted(families)]
    web = make.service("web", ips, ipFamilies=names, ingress=[{"ip": "192.0.2.80"}], **balancer)
    local = make.piece("web", [make.endpoint("10.244.1.1", "n1")])
    far = [make.piece("web", [make.endpoint("fd01::2", "n2")], family=6)] if 6 in families else []
    (tmp_path / "manifests/a.json").write_text(json.dumps({"kind": "List", "items": [web, local, *far]}))
    parts(agent).use_changes({"a.json"})
    output = parts(agent).health_output
    output.health.updated()
    cluster = agent.passes.desired.cluster
    assert cluster is not None
    output._servers.check(cluster.health_checks(), _health_check_addresses(cluster))
    counts = cluster.health_checks()[port].local_endpoints
    assert counts == {4: 1, 6: 0} if 6 in families else {4: 1}
    connection = HTTPConnection("127.0.0.1" if family == 4 else "::1", port, timeout=30)
    connection.request("GET", "/")
    answer = connection.getresponse()
    assert (answer.status, json.load(answer)["localEndpoints"]) == (200, 1)
    connection.close()


def test_long_pass_feeds_the_watchdog(agent: Agent, monkeypatch: pytest.MonkeyPatch) -> None:
    sent: list[str] = []
    monkeypatch.setattr(agent.notifier, "_send", sent.append)
    agent.notifier.watchdog = 30.0
    agent.passes.reconciler.progress()
    assert sent == []  # too early for the watchdog
    agent.watchdog._alive_at -= 31
    for _slice in range(1000):
        agent.passes.reconciler.progress()
    assert sent == ["WATCHDOG=1", "EXTEND_TIMEOUT_USEC=300000000"]
    agent.notifier.started = True
    agent.watchdog._alive_at -= 31
    agent.passes.reconciler.progress()
    assert sent[2:] == ["WATCHDOG=1"]
