# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Reconciliation on a fake node: events have the effect of a fresh start, and all other changes are drift."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.agent.driver import CONFIG, FACTS, Driver, web

from kubenode.daemon.sync.reconciler import Reconciler
from kubenode.daemon.sync.sync_policy import SyncPolicy
from kubenode.engine.desired.cluster import Cluster
from kubenode.engine.errors import KernelError


@pytest.fixture
def driver(tmp_path: Path) -> Driver:
    started = Driver(tmp_path)
    started.put(*web("a", 1, 2))
    started.full()
    return started


def test_full_pass_converges_and_second_does_nothing(driver: Driver) -> None:
    assert driver.held() == driver.wanted()
    again = driver.full()
    assert (again.done, again.failed, again.drift) == ([], [], [])


def test_full_pass_reports_progress(driver: Driver) -> None:
    progress: list[int] = []
    driver.put(*web("web", 2, 2))
    driver.reconciler.progress = lambda: progress.append(sum(map(len, driver.node.state.values())))
    driver.full()
    assert progress[0] == progress[1] < progress[-1]  # while reading, and before it writes each table


def test_partial_pass_reads_nothing_and_changes_its_items(driver: Driver) -> None:
    driver.node.log.clear()
    reads = driver.node.reads
    driver.put(*web("a", 1, 3))
    report = driver.event()
    assert driver.node.reads == reads
    assert {(step.kind, step.verb) for step in report.done} == {("real_server", "create"), ("member", "create")}
    assert len(driver.node.log) == 2
    assert driver.held() == driver.wanted()


def test_unrequested_change_is_drift(driver: Driver) -> None:
    lost = next(iter(driver.node.state["real_server"]))
    del driver.node.state["real_server"][lost]
    driver.put(*web("b", 2, 1))
    report = driver.full()
    assert [step.key for step in report.drift] == [lost]
    assert driver.held() == driver.wanted()


def test_refused_step_is_retried_in_full_pass_without_drift(driver: Driver) -> None:
    driver.put(*web("b", 2, 1))
    driver.node.refuse = {key for key in driver.cluster.state()["virtual_server"] if key.address == "10.96.0.2"}
    report = driver.event()
    assert [failure.step.kind for failure in report.failed] == ["virtual_server"]
    assert not driver.reconciler.synced
    driver.node.refuse = set()
    report = driver.full()
    assert report.drift == []
    assert driver.held() == driver.wanted()


def refuse(driver: Driver) -> None:
    """Let the kernel refuse a Service's virtual server."""
    driver.put(*web("b", 2, 1))
    driver.node.refuse = {key for key in driver.cluster.state()["virtual_server"] if key.address == "10.96.0.2"}
    assert driver.event().failed


def test_permanent_refusal_keeps_partial_passes(driver: Driver) -> None:
    refuse(driver)
    reads = driver.node.reads
    driver.put(*web("a", 1, 3))
    report = driver.event()
    assert driver.node.reads == reads
    assert (len(report.done), report.failed) == (2, [])
    assert driver.event() is None
    assert driver.reconciler.failing
    assert not driver.reconciler.synced
    driver.node.refuse = set()
    assert driver.full().drift == []
    assert driver.reconciler.synced
    assert driver.held() == driver.wanted()


def test_refused_item_that_is_unwanted_fails_no_more(driver: Driver) -> None:
    refuse(driver)
    driver.cluster.remove("Service", "ns1", "b")
    driver.event()
    assert driver.full().failed == []
    assert driver.reconciler.synced


def test_event_about_refused_step_is_a_full_pass(driver: Driver) -> None:
    """The refused step left dependent items out, and no later event would add them."""
    refuse(driver)
    driver.node.refuse = set()
    driver.put(*web("b", 2, 2))
    driver.event()
    assert driver.reconciler.synced
    assert driver.held() == driver.wanted()


def test_foreign_change_beside_a_refusal_is_drift(driver: Driver) -> None:
    refuse(driver)
    lost = next(iter(driver.node.state["real_server"]))
    del driver.node.state["real_server"][lost]
    report = driver.full()
    assert [step.key for step in report.drift] == [lost]
    assert report.failed


def test_drain_continues_beside_a_refusal(driver: Driver) -> None:
    refuse(driver)
    driver.put(*web("a", 1, 1))
    driver.event()
    assert driver.reconciler.draining
    driver.settle()
    assert not driver.reconciler.draining


def test_pass_after_a_failed_pass_is_full(driver: Driver) -> None:
    driver.node.broken = True
    with pytest.raises(KernelError):
        driver.full()
    driver.node.broken = False
    driver.put(*web("b", 2, 1))
    reads = driver.node.reads
    driver.event()
    assert driver.node.reads == reads + 1
    assert driver.held() == driver.wanted()


def test_held_removals_remove_nothing(driver: Driver) -> None:
    driver.cluster.remove("Service", "ns1", "a")
    driver.put(*web("b", 2, 1))
    driver.reconciler.policy = SyncPolicy(hold=True)
    driver.full()
    assert {key.address for key in driver.node.state["virtual_server"]} == {"10.96.0.1", "10.96.0.2"}
    assert all(value.weight == 1 for value in driver.node.state["real_server"].values())
    driver.reconciler.policy = SyncPolicy()
    driver.full()
    driver.settle()
    assert driver.held() == driver.wanted()


def test_rebuilt_cluster_replaces_the_old_one(driver: Driver) -> None:
    driver.cluster = Cluster(CONFIG, FACTS)
    driver.put(*web("b", 2, 1))
    driver.reconciler.accept(driver.cluster.take(), whole=True)
    driver.reconciler.full()
    driver.settle()
    assert driver.held() == driver.wanted()


def test_drain_continues_after_a_restart(driver: Driver, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    driver.put(*web("a", 1, 1))
    driver.event()
    (leaving,) = driver.reconciler.draining
    driver.reconciler.close()
    heir = Reconciler(driver.node, str(tmp_path))
    heir.accept(driver.cluster.state())
    monkeypatch.setattr(driver.node, "connections", lambda _of: {leaving: (1, 0)})
    heir.full()
    assert heir.draining.keys() == {leaving}


@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(
    st.lists(
        st.tuples(st.sampled_from("abc"), st.integers(-1, 3), st.booleans(), st.booleans(), st.booleans()), max_size=12
    )
)
def test_any_history_equals_a_fresh_start(tmp_path_factory: pytest.TempPathFactory, history: list[Any]) -> None:
    driver = Driver(tmp_path_factory.mktemp("run"))
    driver.full()
    for name, endpoints, udp, whole, refused in history:
        if endpoints < 0:
            driver.cluster.remove("Service", "ns1", name)
        else:
            driver.put(*web(name, ord(name) - ord("a") + 1, endpoints, "UDP" if udp else "TCP"))
        driver.node.refuse = set(driver.cluster.state().get("virtual_server", ())) if refused else set()
        driver.full() if whole else driver.event()
    driver.node.refuse = set()
    if not driver.reconciler.synced:  # as the agent does, a little later
        assert driver.full().drift == []
    driver.settle()
    assert driver.held() == driver.wanted()
    assert driver.full().done == []


def test_mh_drain_and_its_end_are_no_drift(driver: Driver) -> None:
    service, slices = web("web", 2, 2)
    service["metadata"]["annotations"] = {"kubenode.ipvs/scheduler": "mh"}
    driver.put(service, slices)
    driver.full()
    driver.put(web("web", 2, 1)[1])
    steps = [(step.kind, step.verb) for step in driver.event().done if step.kind in ("virtual_server", "real_server")]
    assert steps == [("virtual_server", "change"), ("real_server", "change")]
    report = driver.full()
    assert [(step.kind, step.verb) for step in report.done] == [("real_server", "delete"), ("virtual_server", "change")]
    assert report.drift == []
    assert driver.full().done == []
