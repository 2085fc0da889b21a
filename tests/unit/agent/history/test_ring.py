# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Ring: bounded, exact after any end of the process, and never in the way of damaged or foreign files."""

from __future__ import annotations

import os
import random
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.properties import settings

from kubenode.engine.model import State
from kubenode.engine.model.ipvs import RealServer, RealServerKey, VirtualServer, VirtualServerKey
from kubenode.history import files
from kubenode.history.items import Item
from kubenode.history.reading import HistoryError, Reader
from kubenode.history.records import Name, Trouble, Wanted
from kubenode.history.replay import UnknownMomentError, apply, state_at
from kubenode.history.ring import Ring

MEBIBYTE = 1 << 20
EVENTS = ["change", "change", "change", "checkpoint", "kill"]
SERVERS = [VirtualServerKey("tcp", f"10.96.0.{number}", 80, 4) for number in range(1, 20)]


class Written:
    """Ring with random changes, and the state that each moment had."""

    def __init__(self, directory: Path, seed: int, most: int = MEBIBYTE, pods: int = 20) -> None:
        self.directory = str(directory)
        self.notices: list[str] = []
        self.moment = 0
        self.state: State = {}
        self.names: files.Names = {}
        self.states: dict[int, tuple[State, files.Names]] = {}
        self._chance = random.Random(seed)
        self._most = most
        self._pods = pods
        self.ring = self.open()

    def open(self) -> Ring:
        """Begin as a new process does, which starts with a checkpoint."""
        self.ring = Ring(self.directory, self._most, self.notices.append)
        self.ring.open()
        self.checkpoint()
        return self.ring

    def checkpoint(self) -> None:
        self.moment += 10
        self.ring.checkpoint(self.moment, self.state, self.names)
        self._keep()

    def change(self, size: int = 1) -> None:
        """Change some real servers, and write that."""
        chance = self._chance
        items = []
        for _item in range(size):
            server = chance.choice(SERVERS)
            real = RealServerKey(server, f"10.244.0.{chance.randrange(1, self._pods)}", 8080)
            items.append(Item("real_server", real, RealServer(chance.randrange(100))))
            known = list(self.state.get("real_server", ()))
            if known and chance.random() < 0.5:
                items.append(Item("real_server", chance.choice(known), None))
            items.append(Item("virtual_server", server, chance.choice([VirtualServer(), None])))
        names = (Name(chance.choice(SERVERS), chance.choice(["", "a/b:p", "a/c:1"])),)
        change = Wanted(tuple(items), names, (), ())
        self.moment += chance.randrange(1, 20)
        self.ring.append(self.moment, change)
        self.ring.flush()
        apply(self.state, self.names, change)
        self._keep()
        if self.ring.needs_checkpoint:
            self.checkpoint()

    def _keep(self) -> None:
        copy = {kind: dict(values) for kind, values in self.state.items() if values}
        self.states[self.moment] = (copy, dict(self.names))

    def read(self, moment: int) -> tuple[State, files.Names]:
        with Reader(self.directory) as reader:
            replayed = state_at(reader, moment)
            assert reader.problems == []
        return {kind: values for kind, values in replayed.state.items() if values}, replayed.names

    def size(self) -> int:
        """Return the bytes that the files take on a disk with blocks of 4 KiB."""
        return sum(-(-path.stat().st_size // 4096) * 4096 for path in Path(self.directory).iterdir())


@settings(max_examples=25)
@given(st.integers(0, 1 << 30), st.lists(st.sampled_from(EVENTS), max_size=40))
def test_replay_of_random_changes_equals_the_state(seed: int, events: list[str]) -> None:
    directory = Path("/tmp") / f"kubenode-history-{os.getpid()}"
    shutil.rmtree(directory, ignore_errors=True)
    written = Written(directory, seed)
    for event in events:
        if event == "kill":
            written.ring.close()
            written.open()
        else:
            getattr(written, event)()
    for moment, state in written.states.items():
        assert written.read(moment) == state
        later = min((other for other in written.states if other > moment), default=moment + 2)
        assert written.read(later - 1) == state
    shutil.rmtree(directory)


@pytest.fixture
def written(tmp_path: Path) -> Iterator[Written]:
    ring = Written(tmp_path / "history", 1)
    yield ring
    ring.ring.close()


def test_ring_stays_within_its_size_and_exact_at_its_end(tmp_path: Path) -> None:
    ring = Written(tmp_path / "history", 2, most=256 << 10)
    sizes = []
    for _turn in range(700):
        ring.change(20)
        sizes.append(ring.size())
    assert max(sizes) <= 256 << 10
    assert min(sizes[-200:]) > 128 << 10  # full, and the oldest records are gone
    with Reader(ring.directory) as reader:
        heads = reader.checkpoints()
        numbers = [line.number for line in reader.lines()]
        assert reader.problems == []
    assert numbers == list(range(numbers[0], numbers[-1] + 1))
    assert numbers[0] > 1
    known = [moment for moment in ring.states if moment >= heads[0].moment]
    assert len(known) > 50
    for moment in [known[0], known[-1], *random.Random(3).sample(known, 10)]:
        assert ring.read(moment) == ring.states[moment]
    with pytest.raises(UnknownMomentError, match="begins later"):
        ring.read(heads[0].moment - 1)


def test_log_that_was_cut_off_anywhere_is_continued(tmp_path: Path) -> None:
    """A kill in the middle of a write leaves a part of a line; the records before it count."""
    first = Written(tmp_path / "whole", 4)
    for _turn in range(5):
        first.change()
    first.ring.close()
    (log,) = Path(first.directory).glob("*.log")
    data = log.read_bytes()
    ends = [at + 1 for at, byte in enumerate(data) if byte == 10]
    for length in [*range(0, len(data), 37), *ends]:
        log.write_bytes(data[:length])
        with Reader(first.directory) as reader:
            count = len(list(reader.lines()))
            assert reader.problems == []
        assert count == max(0, sum(end <= length for end in ends) - 1)
        ring = Ring(first.directory, MEBIBYTE, first.notices.append)
        ring.open()
        ring.append(10_000, Trouble("later"))
        ring.flush()
        ring.close()
        with Reader(first.directory) as reader:
            assert [line.number for line in reader.lines()] == list(range(1, count + 2))
        for path in Path(first.directory).glob("*.log"):
            path.unlink()
    assert first.notices == []


@pytest.mark.parametrize("seed", range(2))
def test_damaged_file_is_named_and_other_files_count(tmp_path: Path, seed: int) -> None:
    """Show no wrong state, and go on with reading and writing, after any cut or flipped bit."""
    ring = Written(tmp_path / "history", seed, most=256 << 10)
    for _turn in range(60):
        ring.change(20)
    ring.ring.close()
    chance = random.Random(seed)
    backup = tmp_path / "backup"
    shutil.copytree(ring.directory, backup)
    for _round in range(25):
        shutil.rmtree(ring.directory)
        shutil.copytree(backup, ring.directory)
        path = chance.choice(sorted(Path(ring.directory).iterdir()))
        data = path.read_bytes()
        at = chance.randrange(len(data))
        is_cut = chance.random() < 0.5
        path.write_bytes(data[:at] if is_cut else data[:at] + bytes([data[at] ^ 16]) + data[at + 1 :])
        with Reader(ring.directory) as reader:
            for moment in chance.sample(sorted(ring.states), 4):
                try:
                    replayed = state_at(reader, moment)
                except UnknownMomentError:
                    continue
                if path.suffix == ".log" and is_cut:
                    continue  # a log that was cut off looks like that of a process that was killed
                assert {kind: values for kind, values in replayed.state.items() if values} == ring.states[moment][0]
            list(reader.lines())
        after = Ring(ring.directory, 256 << 10, ring.notices.append)
        after.open()
        after.append(1 << 40, Trouble("later"))
        after.flush()
        after.checkpoint(1 << 40, {}, {})
        after.close()
        with Reader(ring.directory) as reader:
            assert state_at(reader, 1 << 41).state == {}


def test_foreign_files_are_kept_and_named(written: Written) -> None:
    written.change()
    written.ring.close()
    directory = Path(written.directory)
    (directory / "0000000000000007.sealed").write_bytes(b"SQLite format 3\0")
    (directory / "0000000000000008.state").write_text("kubenode-history 3 state [1]\n")
    (directory / "0000000000000009.log").symlink_to("/etc/passwd")
    (directory / "notes").write_text("mine")
    with Reader(written.directory) as reader:
        assert [line.type for line in reader.lines()] == ["Wanted", "Damaged", "Damaged"]
        assert [head.number for head in reader.checkpoints()] == [1]
        problems = "\n".join(reader.problems)
    assert all(name in problems for name in ("7.sealed", "8.state", "9.log", "notes"))
    written.open()
    assert len(written.notices) == 3
    assert (directory / "0000000000000007.sealed.foreign").read_bytes() == b"SQLite format 3\0"
    assert (directory / "0000000000000009.log.foreign").is_symlink()
    assert (directory / "notes").read_text() == "mine"
    written.change()
    moment = written.moment
    with Reader(written.directory) as reader:
        assert state_at(reader, moment).names == written.names


def test_file_in_place_of_the_directory_is_renamed(tmp_path: Path) -> None:
    (tmp_path / "history").write_text("mine")
    with pytest.raises(HistoryError, match="it is no directory"):
        Reader(str(tmp_path / "history"))
    written = Written(tmp_path / "history", 1)
    assert (tmp_path / "history.foreign").read_text() == "mine"
    written.ring.close()


def test_kill_between_sealing_and_removal_repeats_nothing(written: Written) -> None:
    for _turn in range(3):
        written.change()
    written.ring.close()
    (log,) = Path(written.directory).glob("*.log")
    data = log.read_bytes()
    log.with_suffix(".sealed").write_bytes(files.seal(data))
    with Reader(written.directory) as reader:
        assert [line.number for line in reader.lines()] == [1, 2, 3]
    written.open()
    assert not log.exists()
    written.change()
    with Reader(written.directory) as reader:
        assert [line.number for line in reader.lines()] == [1, 2, 3, 4]


def test_restart_without_a_change_writes_no_checkpoint(written: Written) -> None:
    """An agent that is restarted again and again must not push its own history out of the ring."""
    written.change()
    written.ring.close()
    for _restart in range(5):
        written.open()
        written.ring.append(written.moment, Trouble("a crash"))
        written.ring.flush()
        written.ring.close()
    assert len(list(Path(written.directory).glob("*.state"))) == 2


def test_ring_full_of_other_records_keeps_the_state(tmp_path: Path) -> None:
    written = Written(tmp_path / "history", 5, most=128 << 10)
    written.change()
    chance = random.Random(6)
    for _turn in range(1000):  # passes that revert drift do not change the desired state
        written.moment += 10
        written.ring.append(written.moment, Trouble(f"{chance.getrandbits(2000):x}"))
        written.ring.flush()
        if written.ring.needs_checkpoint:
            written.checkpoint()
    with Reader(written.directory) as reader:
        first = next(iter(reader.lines()))
    assert first.number > 2
    assert written.read(written.moment) == (written.state, written.names)


def test_state_that_is_too_large_is_named_and_records_go_on(tmp_path: Path) -> None:
    ring = Written(tmp_path / "history", 5, most=32 << 10, pods=250)
    for _turn in range(4):
        ring.change(2000)
    assert any("history.maxSize" in notice for notice in ring.notices)
    with pytest.raises(UnknownMomentError):
        ring.read(ring.moment)
    with Reader(ring.directory) as reader:
        assert list(reader.lines())


def test_removed_directory_is_made_again(written: Written) -> None:
    written.change()
    shutil.rmtree(written.directory)
    with pytest.raises(OSError, match="removed"):
        written.change()
    written.ring.lose(written.moment, "gone")
    assert written.ring.needs_checkpoint
    written.checkpoint()
    written.change()
    assert written.read(written.moment) == written.states[written.moment]


def test_reader_sees_records_of_an_open_ring(written: Written) -> None:
    for _turn in range(3):
        written.change()
        assert written.read(written.moment) == written.states[written.moment]
