# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A comparison in slices gives the same result as one in one go, whatever happens between two slices."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.agent.driver import Driver, web

from kubenode.engine.errors import KernelError
from kubenode.engine.kernel import Result
from kubenode.engine.model.ipvs import RealServer
from kubenode.engine.plan import Step
from kubenode.engine.proxy import diff as differences

random_history = settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)


@pytest.fixture(autouse=True)
def _small_slices(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(differences, "_A_SLICE", 1)


@pytest.fixture
def driver(tmp_path: Path) -> Driver:
    started = Driver(tmp_path)
    started.put(*web("a", 1, 2))
    started.full()
    return started


def end(comparison: Any, most: int = 10_000) -> Any:
    """Run the remaining slices of a comparison, at most ``most``; return its report."""
    for _slice in range(most):
        try:
            next(comparison)
        except StopIteration as last:
            return last.value
    return None


def test_sliced_comparison_heals_and_keeps_interim_changes(driver: Driver) -> None:
    driver.put(*web("b", 2, 1), *web("c", 3, 2))
    driver.event()
    lost = next(key for key in driver.node.state["real_server"] if key.server.address == "10.96.0.1")
    del driver.node.state["real_server"][lost]
    comparison = driver.compare()
    next(comparison)
    driver.put(*web("b", 2, 3))
    driver.cluster.remove("Service", "ns1", "c")
    driver.event()
    next(comparison)
    driver.settle()
    report = end(comparison)
    assert [step.key for step in report.drift] == [step.key for step in report.done] == [lost]
    assert driver.held() == driver.wanted()


def test_full_pass_ends_a_sliced_comparison(driver: Driver) -> None:
    comparison = driver.compare()
    next(comparison)
    driver.full()
    driver.node.log.clear()
    assert end(comparison) is None
    assert driver.node.log == []


def test_interim_failure_is_left_to_the_next_full_pass(driver: Driver) -> None:
    comparison = driver.compare()
    next(comparison)
    driver.put(*web("b", 2, 1))
    driver.node.refuse = {key for key in driver.cluster.state()["virtual_server"] if key.address == "10.96.0.2"}
    driver.event()
    assert end(comparison) is None
    assert not driver.reconciler.synced


def test_sliced_comparison_with_read_error_believes_nothing(driver: Driver) -> None:
    driver.node.broken = True
    with pytest.raises(KernelError):
        end(driver.compare())
    driver.node.broken = False
    driver.reconciler.known = False  # as the agent does after such an error
    driver.put(*web("b", 2, 1))
    driver.event()
    assert driver.held() == driver.wanted()


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(
    st.lists(
        st.tuples(
            st.sampled_from("abc"), st.integers(-1, 3), st.booleans(), st.sampled_from(("begin", "slice", "drain"))
        ),
        max_size=15,
    )
)
def test_sliced_comparison_counts_no_own_change_as_drift(
    tmp_path_factory: pytest.TempPathFactory, history: list[Any]
) -> None:
    driver = Driver(tmp_path_factory.mktemp("run"))
    driver.full()
    comparison, reports = driver.compare(), []
    for name, endpoints, udp, then in history:
        if endpoints < 0:
            driver.cluster.remove("Service", "ns1", name)
        else:
            driver.put(*web(name, ord(name) - ord("a") + 1, endpoints, "UDP" if udp else "TCP"))
        driver.event()
        if then == "drain":
            driver.reconciler.drain()
        elif then == "begin":
            reports.append(end(comparison))
            comparison = driver.compare()
        else:
            reports.append(end(comparison, 1))
    reports.append(end(comparison))
    assert [step for report in reports if report is not None for step in report.drift] == []
    driver.settle()
    assert driver.held() == driver.wanted()
    assert driver.full().done == []


# changes by other processes

KINDS = ("virtual_server", "real_server", "set", "member", "chain", "jump", "address", "link")
MEDDLING = st.tuples(st.sampled_from(KINDS), st.integers(0, 99), st.sampled_from(("lost", "changed", "added")))


def meddle(driver: Driver, kind: str, index: int, how: str) -> None:
    """Change an item as another process would, with the kernel's side effects."""
    state = driver.node.state
    if not state[kind]:
        return
    key = sorted(state[kind], key=str)[index % len(state[kind])]
    if how == "added" and kind in ("virtual_server", "real_server") and state["real_server"]:
        server = key if kind == "virtual_server" else key.server
        state["real_server"][next(iter(state["real_server"]))._replace(server=server, address="192.0.2.99")] = (
            RealServer()
        )
        state["virtual_server"][server._replace(address="192.0.2.98")] = state["virtual_server"][server]
    elif how == "changed" and kind == "virtual_server":
        state[kind][key] = state[kind][key]._replace(scheduler="wlc")
    elif how == "changed" and kind == "real_server":
        state[kind][key] = state[kind][key]._replace(weight=7)
    elif how == "changed" and kind == "chain":
        state[kind][key] = (*state[kind][key], "-j RETURN")
    elif how == "changed" and kind == "set":
        # its members mean something else, so the agent writes all of them again
        state[kind][key] = state[kind][key]._replace(type="hash:net")
    else:
        del state[kind][key]
        state["real_server"] = {
            key: value for key, value in state["real_server"].items() if key.server in state["virtual_server"]
        }
        state["member"] = {key: value for key, value in state["member"].items() if key.set in state["set"]}
        state["address"] = {key: value for key, value in state["address"].items() if key.link in state["link"]}
        driver.node._place([])


def forgiving(driver: Driver) -> Driver:
    """Let the node accept the removal of missing items, as the kernel does.

    Removing a virtual server also removes its real servers.
    """
    apply = driver.node.apply

    def forgive(steps: list[Step], keep_going: bool) -> Result:
        keys = {step.key for step in steps if step.after is None}
        reals = driver.node.state["real_server"]
        for key in [key for key in reals if key.server in keys and key not in keys]:
            del reals[key]
        for step in steps:
            if step.after is None and step.kind != "jump":
                driver.node.state[step.kind].setdefault(step.key, step.before)
        return apply(steps, keep_going)

    driver.node.tables = dict.fromkeys(driver.node.tables, forgive)
    return driver


def follow(driver: Driver, name: str, endpoints: int, protocol: str) -> None:
    if endpoints < 0:
        driver.cluster.remove("Service", "ns1", name)
    else:
        driver.put(*web(name, ord(name) - ord("a") + 1, endpoints, protocol))
    driver.event()


CHANGE = st.tuples(st.sampled_from("abc"), st.integers(-1, 3), st.sampled_from(("TCP", "UDP")))


@random_history
@given(st.lists(CHANGE, max_size=6), st.lists(MEDDLING, max_size=6), st.booleans())
def test_sliced_comparison_equals_comparison_at_once(
    tmp_path_factory: pytest.TempPathFactory, history: list[Any], meddling: list[Any], contested: bool
) -> None:
    twins = [forgiving(Driver(tmp_path_factory.mktemp("run"))) for _twin in range(2)]
    for driver in twins:
        driver.put(*web("a", 1, 2))
        driver.full()
        if contested:
            driver.claim_as("site", "10.96.0.2")
            driver.full()
        for change in history:
            follow(driver, *change)
        driver.settle()  # draining real servers are handled in turns instead
        for one in meddling:
            meddle(driver, *one)
    whole = twins[0].full()
    sliced = end(twins[1].reconciler.compare())
    assert sliced.full
    for one, other in ((whole.done, sliced.done), (whole.drift, sliced.drift), (whole.conflicts, sliced.conflicts)):
        assert sorted(map(str, one)) == sorted(map(str, other))
    assert whole.failed == sliced.failed == []
    assert twins[0].node.state == twins[1].node.state
    assert twins[0].reconciler.draining.keys() == twins[1].reconciler.draining.keys()
    for driver in twins:
        driver.settle()
        assert driver.full().done == []


@random_history
@given(st.lists(st.one_of(CHANGE, MEDDLING, st.integers(1, 40), st.sampled_from(("begin", "drain"))), max_size=20))
def test_sliced_comparison_finds_drift_after_interim_changes(
    tmp_path_factory: pytest.TempPathFactory, history: list[Any]
) -> None:
    driver = forgiving(Driver(tmp_path_factory.mktemp("run")))
    driver.put(*web("a", 1, 2), *web("b", 2, 3))
    driver.full()
    comparison = driver.compare()
    for what in history:
        if isinstance(what, int):
            end(comparison, what)
        elif what == "begin":
            comparison = driver.compare()
        elif what == "drain":
            driver.reconciler.drain()
        elif what[0] in KINDS:
            meddle(driver, *what)
        else:
            follow(driver, *what)
        if not driver.reconciler.synced:  # as the agent does, a little later
            driver.full()
    end(comparison)
    for _period in range(2):
        if not driver.reconciler.synced:
            driver.full()
        end(driver.compare())
    driver.settle()
    state = driver.node.state
    state["virtual_server"] = {
        key: value for key, value in state["virtual_server"].items() if key.address != "192.0.2.98"
    }
    state["real_server"] = {
        key: value for key, value in state["real_server"].items() if key.server.address != "192.0.2.98"
    }
    assert driver.held() == driver.wanted()
    assert driver.full().done == []
