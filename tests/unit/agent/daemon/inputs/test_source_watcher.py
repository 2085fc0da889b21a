# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The moment at which changes of the source are handed over: at once after a quiet time, gathered in a stream."""

from __future__ import annotations

import os
import pwd
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.agent.idle import Clock

from kubenode.daemon.inputs.source_watcher import SourceWatcher
from kubenode.daemon.loop import Loop
from kubenode.log import Log
from kubenode.manifests.directory import Manifests

_GATHER = 0.02
_FORGIVEN = 1e-6  # seconds that the arithmetic of floating-point numbers may be off


class Source:
    """A source with a descriptor, as the Kubernetes API is one."""

    def __init__(self) -> None:
        self._reader, self._writer = os.pipe()

    def fileno(self) -> int:
        return self._reader

    def change(self) -> None:
        os.write(self._writer, b"x")

    def acknowledge(self) -> None:
        os.read(self._reader, 4096)

    def close(self) -> None:
        os.close(self._reader)
        os.close(self._writer)


class Day:
    """A watcher in a loop whose clock the test sets, the moments of its calls of ``use``, and what each call takes."""

    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        self.loop = Loop()
        self.source = Source()
        self.used: list[float] = []
        self.pass_seconds = 0.0
        self.watcher = SourceWatcher(self.loop, Log(write=lambda _line: None, journal=True), self._use)
        self.watcher.follow(self.source)
        self.let_pass(1.0)
        self.used.clear()

    def _use(self, _names: object) -> None:
        self.used.append(self.clock.now)
        self.clock.now += self.pass_seconds

    def turn(self) -> None:
        """Run all callbacks that are due now."""
        for _turn in range(3):  # a descriptor's callback sets a timer, which the next turn runs
            self.loop.after(0.0, self.loop.stop)
            self.loop.run()
            for key, _events in self.loop._selector.select(0.0):
                key.data()

    def let_pass(self, seconds: float) -> None:
        """Let time pass, and run each timer when it is due."""
        end = self.clock.now + seconds
        while True:
            due = [entry.when for entry in self.loop._timers if entry.timer.pending and entry.when <= end]
            if not due:
                break
            self.clock.now = max(self.clock.now, min(due))
            self.turn()
        self.clock.now = max(self.clock.now, end)

    def change(self) -> float:
        """Change the source now; return the moment."""
        moment = self.clock.now
        self.source.change()
        self.turn()
        return moment

    def close(self) -> None:
        self.watcher.close()
        self.source.close()
        self.loop.close()


@pytest.fixture
def day(clock: Clock) -> Iterator[Day]:
    made = Day(clock)
    yield made
    made.close()


def test_first_change_after_a_quiet_time_goes_at_once(day: Day) -> None:
    moments = []
    for _change in range(3):
        moments.append(day.change())
        day.let_pass(0.1)
    assert day.used == moments


def test_changes_soon_after_the_first_go_together(day: Day) -> None:
    first = day.change()
    day.let_pass(0.005)
    second = day.change()
    for _change in range(10):
        day.let_pass(0.001)
        day.change()
    day.let_pass(1.0)
    assert day.used == [first, pytest.approx(second + _GATHER)]


def test_changes_during_a_long_pass_go_together(day: Day) -> None:
    """They waited for the pass; the next pass must not begin for the first of them alone."""
    day.pass_seconds = 0.5
    day.change()
    day.pass_seconds = 0.0
    second = day.change()
    day.let_pass(0.01)
    day.change()
    day.let_pass(1.0)
    assert day.used[1:] == [pytest.approx(second + _GATHER)]


def test_changed_file_goes_at_once_with_its_name(day: Day, tmp_path: Path) -> None:
    names = followed(day, tmp_path)
    (tmp_path / "a.json").write_text("{}")
    day.turn()
    assert names == [{"a.json"}]
    for name in ("b.json", "c.json"):
        (tmp_path / name).write_text("{}")
        day.turn()
    assert names == [{"a.json"}]
    day.let_pass(1.0)
    assert names[1:] == [{"b.json", "c.json"}]


def test_file_being_staged_does_not_delay_the_manifest(day: Day, tmp_path: Path) -> None:
    """Programs write a file under another name, and rename it."""
    names = followed(day, tmp_path)
    staged = tmp_path / ".a.json.new"
    staged.write_text("{}")
    day.turn()
    staged.rename(tmp_path / "a.json")
    day.turn()
    assert names == [{"a.json"}]


def test_file_is_read_again_once_its_mode_allows_it(day: Day, public: Path) -> None:
    """ansible.builtin.copy renames a new file into place, and then gives it its mode."""
    source = Manifests(str(public))
    names: list[object] = []

    def read(changed: set[str] | None) -> None:
        names.append(changed)
        with user("nobody"):
            source.scan(changed)

    day.watcher._use = read
    day.watcher.follow(source)
    day.let_pass(1.0)
    names.clear()
    path = public / "a.json"
    path.touch(mode=0o600)
    day.turn()
    assert "Permission denied" in source.problems["a.json"]
    day.let_pass(1.0)
    path.chmod(0o644)
    day.turn()
    assert (names, source.problems.keys()) == ([{"a.json"}, {"a.json"}], set())
    day.let_pass(1.0)
    path.chmod(0o640)
    day.turn()
    assert names == [{"a.json"}] * 2


@pytest.fixture
def public() -> Iterator[Path]:
    """Return a directory that every user may enter."""
    with tempfile.TemporaryDirectory(dir="/tmp") as name:
        os.chmod(name, 0o755)
        yield Path(name)


@contextmanager
def user(name: str) -> Iterator[None]:
    """Have the rights of a user for a while."""
    os.seteuid(pwd.getpwnam(name).pw_uid)
    try:
        yield
    finally:
        os.seteuid(0)


def followed(day: Day, directory: Path) -> list[object]:
    """Follow manifests instead of the source; return the list that gets the names of each call of ``use``."""
    names: list[object] = []
    day.watcher._use = names.append
    day.watcher.follow(Manifests(str(directory)))
    day.let_pass(1.0)
    names.clear()
    return names


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    pauses=st.lists(st.sampled_from([0.0, 0.0005, 0.003, 0.011, 0.02, 0.03, 0.05, 0.2]), min_size=1, max_size=60),
    pass_seconds=st.sampled_from([0.0, 0.002, 0.03]),
)
def test_no_change_waits_longer_than_gathering(clock: Clock, pauses: list[float], pass_seconds: float) -> None:
    """Under any stream no change starves, and passes begin at least the time of gathering after the last one."""
    day = Day(clock)
    try:
        day.pass_seconds = pass_seconds
        changes = []
        for pause in pauses:
            day.let_pass(pause)
            changes.append(day.change())
        day.let_pass(1.0)
    finally:
        day.close()
    for change in changes:
        next_use = min(used for used in day.used if used >= change - _FORGIVEN)
        assert next_use <= change + _GATHER + pass_seconds + _FORGIVEN
    for before, after in pairwise(day.used):
        assert after - before >= pass_seconds + _GATHER - _FORGIVEN
    assert len(day.used) <= len(changes)
