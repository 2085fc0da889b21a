# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Reactions to kernel events: their share of the time, bursts, lost events."""

from __future__ import annotations

import pytest
from support.agent.idle import NOTHING, Clock

from kubenode.daemon.agent import Agent
from kubenode.daemon.inputs.kernel_watcher import KernelWatcher
from kubenode.daemon.loop import Timer
from kubenode.daemon.pass_result import KERNEL_EVENT


@pytest.mark.parametrize(
    ("does", "pace", "pauses"),
    [("look", "_look", (0.0, 0.0, 0.0, 0.0, 40.0, 60.0)), ("full", "_mend", (0.0, 0.0, 0.0, 0.0, 20.0, 30.0))],
)
def test_kernel_events_are_repaired_at_a_bounded_share(
    agent: Agent, clock: Clock, monkeypatch: pytest.MonkeyPatch, does: str, pace: str, pauses: tuple[float, ...]
) -> None:
    """Another process may revert the agent's repair again and again; most changes do not come again."""
    done: list[str] = []
    monkeypatch.setattr(agent.passes, does, lambda *_reason: done.append(does))
    watcher = KernelWatcher(agent.passes)
    watcher.passed(NOTHING._replace(full=False, seconds=3.0), KERNEL_EVENT)
    watcher.passed(NOTHING._replace(full=False, seconds=90.0), "draining")
    for pause in pauses:  # comparisons of three seconds each: ten seconds do not wait
        for _time in range(100):
            getattr(watcher, pace).soon()
        (timer,) = due(agent)
        assert timer.when - clock.now == pytest.approx(pause)
        callback = timer.callback
        timer.cancel()
        assert callback is not None
        clock.now = timer.when
        callback()
    assert done == [does] * 6


def due(agent: Agent) -> list[Timer]:
    return sorted(
        (timer for _when, _number, timer in agent.passes.loop._timers if timer.pending), key=lambda timer: timer.when
    )


def test_node_addresses_are_read_at_a_bounded_share(
    agent: Agent, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Listing the addresses of a node with thousands of virtual addresses takes time."""
    watcher = KernelWatcher(agent.passes)
    monkeypatch.setattr(agent.passes.desired, "use_node", lambda: setattr(clock, "now", clock.now + 0.03))
    monkeypatch.setattr(agent.passes, "changed", lambda: None)
    for pause in (0.2, 0.57):  # the last listing began 0.6 s ago
        for _time in range(100):
            watcher._follow.soon()
        (timer,) = due(agent)
        assert timer.when - clock.now == pytest.approx(pause)
        callback = timer.callback
        timer.cancel()
        assert callback is not None
        callback()


class Deaf:
    """A monitor that has lost events, because there were more than its queue holds."""

    def fileno(self) -> int:
        return -1

    def read(self) -> None:
        return None


def test_bursts_of_kernel_events_are_read_together(agent: Agent) -> None:
    """A wakeup for each of hundreds of events a second costs more than one read of all."""
    assert agent.lifecycle.parts is not None
    watcher = agent.lifecycle.parts.kernel_watcher
    assert watcher._events is not None
    assert watcher._rule_events is not None
    handlers = {
        watcher._events.fileno(): watcher._network_changed,
        watcher._rule_events.fileno(): watcher._rules_changed,
    }
    for number, handler in handlers.items():
        assert number in agent.passes.loop._selector.get_map()
        handler()
        assert number not in agent.passes.loop._selector.get_map()
        timer = due(agent)[-1]
        assert timer.callback is not None
        timer.callback()
        assert number in agent.passes.loop._selector.get_map()


def test_lost_events_cause_one_comparison(agent: Agent, monkeypatch: pytest.MonkeyPatch) -> None:
    done: list[str] = []
    monkeypatch.setattr(agent.passes, "full", done.append)
    watcher = KernelWatcher(agent.passes)
    monkeypatch.setattr(watcher, "_events", Deaf())
    for _time in range(100):
        watcher._network_changed()
    assert done == []
    (mending,) = [timer for timer in due(agent) if timer.callback == watcher._mend._now]
    assert mending.callback is not None
    mending.callback()
    assert done == ["events lost"]
