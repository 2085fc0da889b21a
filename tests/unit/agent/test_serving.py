# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What passes do to metrics and health; the agent is real, its passes are not carried out."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support import objects as make

from kubenode.daemon.agent import Agent
from kubenode.daemon.hearing import Hearing
from kubenode.daemon.loop import Timer
from kubenode.daemon.reconcile import Report
from kubenode.daemon.serving import Serving
from kubenode.daemon.wanted import Options
from kubenode.engine.errors import KernelError
from kubenode.engine.kernel import Failure
from kubenode.engine.model.iptables import ChainKey
from kubenode.engine.model.ipvs import RealServerKey, VirtualServerKey
from kubenode.engine.plan import Step
from kubenode.log import Log

NOTHING = Report(True, [], [], [], [], 0.1, {})
CONFIG = {
    "apiVersion": "kubeproxy.config.k8s.io/v1alpha1",
    "kind": "KubeProxyConfiguration",
    "ipvs": {"minSyncPeriod": "30s"},  # no pass while a test lasts
}

LINES: list[str] = []  # of the log


@pytest.fixture
def agent(tmp_path: Path) -> Iterator[Agent]:
    (tmp_path / "config.yaml").write_text(json.dumps(CONFIG))
    (tmp_path / "manifests").mkdir()
    options = Options(str(tmp_path / "config.yaml"), True, str(tmp_path / "manifests"), str(tmp_path), str(tmp_path), "n1", False)
    found = Agent(options, Log(write=LINES.append, journal=True))
    found.wanted.configure()
    LINES.clear()
    found._serving = Serving(found)
    yield found
    found._serving.close()
    found.loop.close()


def values(agent: Agent) -> dict[str, float]:
    """What the metrics say now, by name with labels."""
    assert agent._serving is not None
    text = agent._serving.metrics.text()
    return {name: float(value) for name, _blank, value in (line.rpartition(" ") for line in text.splitlines()) if name[0] != "#"}


def timestamps(agent: Agent, family: str) -> tuple[float, float]:
    """When a pass was last asked for, and when one last got through (0: never)."""
    found, sync = values(agent), "kubeproxy_sync_proxy_rules_last_"
    labels = f'{{ip_family="{family}"}}'
    return found[f"{sync}queued_timestamp_seconds{labels}"], found.get(f"{sync}timestamp_seconds{labels}", 0.0)


def test_what_does_not_get_through_was_asked_for_later_than_what_did(agent: Agent) -> None:
    assert agent._serving is not None
    agent._serving.passed(NOTHING, "start")
    queued, synced = timestamps(agent, "IPv4")
    assert queued < synced
    agent._trouble(KernelError("no memory"))
    queued, unchanged = timestamps(agent, "IPv4")
    assert queued > unchanged == synced
    assert values(agent)['kubenode_problems{about="node"}'] == 1
    agent.trouble = ""
    agent._serving.passed(NOTHING, "retry")
    assert 'kubenode_problems{about="node"}' not in values(agent)


def test_rules_that_fail_in_one_family_say_nothing_of_the_other(agent: Agent) -> None:
    assert agent._serving is not None
    step = Step("chain", ChainKey(6, "nat", "KUBE-SERVICES"), None, ())
    agent.reconciler.failing = {"chain": {step.key}}
    agent._serving.passed(NOTHING._replace(failed=[Failure(step, "refused")]), "start")
    agent._serving.passed(NOTHING._replace(full=False), "event")  # which has nothing to do with it
    found = values(agent)
    assert found['kubeproxy_sync_proxy_rules_iptables_restore_failures_total{ip_family="IPv6"}'] == 1
    assert 'kubeproxy_sync_proxy_rules_iptables_restore_failures_total{ip_family="IPv4"}' not in found
    assert timestamps(agent, "IPv6")[1] == 0 < timestamps(agent, "IPv4")[1]
    assert not agent._serving.health.healthy


def test_what_is_refused_for_good_is_tried_ever_more_seldom_whatever_else_is_done(agent: Agent) -> None:
    step = Step("chain", ChainKey(6, "nat", "KUBE-SERVICES"), None, ())
    agent.reconciler.known, agent.reconciler.failing = True, {"chain": {step.key}}
    for _time in range(4):
        agent._passed(NOTHING._replace(failed=[Failure(step, "no")]), "retry")
        agent._passed(NOTHING._replace(full=False), "event")
    assert agent._backoff == 16
    assert agent.failures == {step.describe(): "no"}
    agent.reconciler.failing = {}
    agent._passed(NOTHING._replace(full=False, done=[step]), "event")
    assert agent._backoff == 1
    assert agent.failures == {}


def test_changes_add_up_until_a_pass(agent: Agent, tmp_path: Path) -> None:
    assert agent._serving is not None
    agent._synced_at = float("inf")
    for number in (1, 2):
        (tmp_path / f"manifests/{number}.json").write_text(json.dumps(make.service(f"s{number}", [f"10.96.0.{number}"])))
        agent._serving._use_changes({f"{number}.json"})
    pending = "kubeproxy_sync_proxy_rules_service_changes_pending"
    assert values(agent)[pending] == 2
    agent._serving.passed(NOTHING, "event")
    assert values(agent)[pending] == 0
    assert values(agent)["kubeproxy_sync_proxy_rules_service_changes_total"] == 2


@pytest.mark.parametrize(
    ("reason", "done", "failed", "said"),
    [("start", 0, 0, True), ("retry", 0, 1, True), ("period", 0, 0, False), ("period", 1, 0, True), ("event", 1, 0, False),
     ("event", 1, 1, True), ("draining", 1, 0, False), ("reload", 0, 0, True), ("kernel event", 1, 0, True),
     ("kernel event", 0, 0, False), ("events lost", 0, 0, False)],
)  # fmt: skip
def test_a_busy_cluster_is_no_news(agent: Agent, reason: str, done: int, failed: int, said: bool) -> None:
    """One line for each change would be millions a day."""
    step = Step("chain", ChainKey(6, "nat", "KUBE-SERVICES"), None, ())
    agent._passed(NOTHING._replace(full=reason != "event", done=[step] * done, failed=[Failure(step, "no")] * failed), reason)
    assert any(line.startswith(("<6>converged", "<4>converged in part")) for line in LINES) is said


def test_who_undoes_what_we_do_all_the_time_fills_no_log(agent: Agent) -> None:
    step = Step("chain", ChainKey(6, "nat", "KUBE-SERVICES"), None, ())
    other = step._replace(key=ChainKey(6, "nat", "KUBE-MARK-MASQ"))
    for reason in ("kernel event", "period") * 100:
        agent._passed(NOTHING._replace(done=[step], drift=[step]), reason)
        agent._passed(NOTHING._replace(done=[step], drift=[step], failed=[Failure(other, "no")]), reason)
    assert len(LINES) == 4, LINES  # what was healed, what failed, and for each reason that something did
    assert values(agent)['kubenode_drift_healed_total{kind="chain"}'] == 400


def test_changes_come_together_and_no_sooner_than_min_sync_period(agent: Agent, monkeypatch: pytest.MonkeyPatch) -> None:
    passes: list[tuple[bool, str]] = []
    monkeypatch.setattr(agent, "_pass", lambda whole, reason: passes.append((whole, reason)))
    agent._synced_at = time.monotonic() - 31
    agent.changed()
    assert passes == [(False, "event")]  # the last one is long ago
    agent._synced_at = time.monotonic()
    for _time in range(3):
        agent.changed()
    assert len(passes) == 1
    waiting = [timer for _when, _number, timer in agent.loop._timers if timer.pending]
    assert [timer.when - agent._synced_at for timer in waiting] == [pytest.approx(30, abs=0.01)]
    assert waiting[0].callback is not None
    waiting[0].callback()
    assert len(passes) == 2


def test_a_dump_says_what_is_wanted_and_what_is_wrong(agent: Agent, tmp_path: Path) -> None:
    web = make.service("web", ["10.96.0.10"], [make.port(80, "http")])
    endpoint = make.piece("web", [make.endpoint("10.244.1.1", "n1")], [make.port(8080, "http")])
    bad = make.service("bad", ["10.96.0.11"], [make.port(70000)])
    (tmp_path / "manifests/a.json").write_text(json.dumps({"kind": "List", "items": [web, endpoint, bad]}))
    agent.wanted.refresh()
    changes, whole = agent.wanted.take()
    agent.reconciler.accept(changes, whole=whole)
    server = VirtualServerKey("tcp", "10.96.0.10", 80, 4)
    agent.reconciler.draining = {RealServerKey(server, "10.244.1.9", 8080): time.monotonic() - 7}
    agent._dump()
    assert all(line.startswith("<6>state ") for line in LINES)
    text = "".join(LINES)
    assert '<6>state items="{' in text
    assert '<6>state problem about=Service object=ns1/bad reason="Service ns1/bad: spec.ports[0].port is 70000, ' in text
    wanted = 'object=ns1/web port=http server="tcp 10.96.0.10:80" scheduler=rr real="10.244.1.1:8080=1"'
    assert f"<6>state virtual server {wanted}\n" in text
    assert '<6>state draining object=ns1/web real_server="10.244.1.9:8080 of tcp 10.96.0.10:80" seconds=7\n' in text


@pytest.mark.parametrize(("does", "pace", "pauses"), [("look", "_look", (0.2, 60.0)), ("full", "_mend", (0.0, 30.0))])
def test_what_the_kernel_tells_is_mended_soon_but_not_all_the_time(
    agent: Agent, monkeypatch: pytest.MonkeyPatch, does: str, pace: str, pauses: tuple[float, float]
) -> None:
    """Somebody may undo what we do as soon as we have done it."""
    done: list[str] = []
    monkeypatch.setattr(agent, does, lambda *_reason: done.append(does))
    agent.last = NOTHING._replace(seconds=3.0)
    hearing = Hearing(agent)
    for pause in pauses:  # the second comparison of three seconds in a row
        for _time in range(100):
            getattr(hearing, pace).soon()
        (timer,) = due(agent)
        assert timer.when - time.monotonic() == pytest.approx(pause, abs=0.1)
        callback = timer.callback
        timer.cancel()
        assert callback is not None
        callback()
    assert done == [does] * 2


def due(agent: Agent) -> list[Timer]:
    return sorted((timer for _when, _number, timer in agent.loop._timers if timer.pending), key=lambda timer: timer.when)


def test_others_addresses_that_change_all_the_time_are_followed_now_and_then(
    agent: Agent, monkeypatch: pytest.MonkeyPatch
) -> None:
    """To list those of a node with thousands of virtual addresses takes its time."""
    hearing = Hearing(agent)
    monkeypatch.setattr(agent.wanted, "use_node", lambda: time.sleep(0.03))
    monkeypatch.setattr(agent, "changed", lambda: None)
    for pause in (0.2, 0.6):
        for _time in range(100):
            hearing._follow.soon()
        (timer,) = due(agent)
        assert timer.when - time.monotonic() >= pause - 0.1
        callback = timer.callback
        timer.cancel()
        assert callback is not None
        callback()


class Deaf:
    """More events than any queue holds."""

    def fileno(self) -> int:
        return -1

    def read(self) -> None:
        return None


def test_many_changes_are_heard_together(agent: Agent) -> None:
    """To be woken for each of hundreds a second would cost more than to hear of all of them."""
    assert agent._serving is not None
    hearing = agent._serving._hearing
    assert hearing._events is not None
    assert hearing._rule_events is not None
    ears = {hearing._events.fileno(): hearing._heard, hearing._rule_events.fileno(): hearing._rules_changed}
    for number, hear in ears.items():
        assert number in agent.loop._selector.get_map()
        hear()
        assert number not in agent.loop._selector.get_map()
        timer = due(agent)[-1]
        assert timer.callback is not None
        timer.callback()
        assert number in agent.loop._selector.get_map()


def test_events_that_are_lost_all_the_time_make_no_comparison_each(agent: Agent, monkeypatch: pytest.MonkeyPatch) -> None:
    done: list[str] = []
    monkeypatch.setattr(agent, "full", done.append)
    hearing = Hearing(agent)
    monkeypatch.setattr(hearing, "_events", Deaf())
    for _time in range(100):
        hearing._heard()
    assert done == []
    (mending,) = [timer for timer in due(agent) if timer.callback == hearing._mend._now]
    assert mending.callback is not None
    mending.callback()
    assert done == ["events lost"]


def test_systemd_is_told_of_many_changes_once_a_second(agent: Agent, monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[str] = []
    monkeypatch.setattr(agent.notifier, "status", told.append)
    for _time in range(3):
        agent._passed(NOTHING, "retry")
    assert len(told) == 3  # units that wait for ours begin after it
    agent._start.over = True
    for _time in range(50):
        agent._passed(NOTHING, "event")
    assert len(told) == 3
    telling = agent._telling
    assert telling is not None
    assert telling.callback is not None
    agent.trouble = "no memory"
    agent._told_at -= 1
    telling.callback()
    assert told[3:] == ["waiting: no memory"]


@pytest.mark.parametrize("junk", [None, "text", ["list"], {"endpoints.kubernetes.io/last-change-trigger-time": 7}, {1: 2}])
def test_annotations_that_are_none_do_no_harm(agent: Agent, tmp_path: Path, junk: Any) -> None:
    piece = make.piece("web", [make.endpoint("10.244.1.1", "n1")], [make.port(8080, "http")])
    piece["metadata"]["annotations"] = junk
    (tmp_path / "manifests/a.json").write_text(json.dumps(piece))
    assert agent._serving is not None
    agent._serving._use_changes({"a.json"})
    assert values(agent)["kubeproxy_sync_proxy_rules_endpoint_changes_total"] == 1


def test_a_long_pass_that_gets_on_keeps_the_watchdog_quiet(agent: Agent, monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[str] = []
    monkeypatch.setattr(agent.notifier, "_send", told.append)
    agent.notifier.watchdog = 30.0
    agent.reconciler.progress()
    assert told == []  # it was not that long
    agent._alive_at -= 31
    for _slice in range(1000):
        agent.reconciler.progress()
    assert told == ["WATCHDOG=1", "EXTEND_TIMEOUT_USEC=300000000"]
    agent._start.over = True
    agent._alive_at -= 31
    agent.reconciler.progress()
    assert told[2:] == ["WATCHDOG=1"]
