# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Memory that a running agent must free at once.

The agent's garbage collector runs seldom, so reference cycles count as leaks.
"""

from __future__ import annotations

import gc
import socket
import threading
import tracemalloc
from collections.abc import Iterator
from pathlib import Path

import pytest

from kubenode.daemon.loop import Loop
from kubenode.daemon.memory import trim_regularly
from kubenode.daemon.outputs.control import Control, ask
from kubenode.log import Log


@pytest.fixture
def uncollected() -> Iterator[None]:
    """Collect all garbage first, and leave later reference cycles in place."""
    gc.collect()
    gc.disable()
    yield
    gc.enable()


def sockets() -> int:
    return sum(isinstance(item, socket.socket) for item in gc.get_objects())


def test_control_questions_leave_no_reference_cycles(tmp_path: Path, uncollected: None) -> None:
    loop, path = Loop(), str(tmp_path / "s")
    control = Control(loop, path, {"status": lambda: {"big": "x" * 500_000}, "stop": loop.stop})
    thread = threading.Thread(target=loop.run, daemon=True)  # a failure must not block the test run
    thread.start()
    ask(path, "status")
    before = sockets()
    for _question in range(20):
        ask(path, "status")
    assert sockets() == before
    ask(path, "stop")
    thread.join()
    control.close()
    loop.close()


def written_for(log: Log, numbers: range) -> int:
    """Write long, different lines; return the bytes held afterwards."""
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    for number in numbers:
        log.warning("object cannot be used", object=f"shop/{number}", reason="x" * 10_000)
    held = tracemalloc.get_traced_memory()[0] - before
    tracemalloc.stop()
    return held


def test_log_holds_no_text_of_lines_it_remembers() -> None:
    log = Log(write=lambda _line: None, journal=True, clock=lambda: 0.0)
    assert written_for(log, range(1000)) < 300_000


def test_log_remembers_lines_for_ten_minutes() -> None:
    now, written = [0.0], list[str]()
    log = Log(write=written.append, journal=True, clock=lambda: now[0])
    for second in (0, 1, 599, 601):
        now[0] = second
        log.error("cannot", reason="x")
        log.error("cannot", number=second)
    assert [line for line in written if "reason" in line] == ["<3>cannot reason=x\n", "<3>cannot reason=x repeated=1\n"]


def heap_bytes() -> int:
    """Return the resident bytes of the C library's main heap."""
    lines = Path("/proc/self/smaps").read_text().split("[heap]\n")[1].splitlines()
    return next(int(line.split()[1]) << 10 for line in lines if line.startswith("Rss:"))


def test_free_memory_goes_back_to_the_kernel() -> None:
    size = 100_000  # above the size that Python allocates itself, below the size that the C library maps separately
    blocks = [bytearray(size) for _ in range(300)]
    last = bytearray(size)  # above the free blocks: the heap cannot shrink past it
    before = heap_bytes()
    del blocks
    loop = Loop()
    trim_regularly(loop)
    loop.close()
    assert before - heap_bytes() > 200 * size
    assert len(last) == size
