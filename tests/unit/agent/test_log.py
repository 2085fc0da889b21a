# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Log: text, JSON, the journal, line quotas."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from kubenode.log import Log


def lines(level: str = "info", form: str = "text", journal: bool = False) -> tuple[Log, list[str], list[float]]:
    written: list[str] = []
    now = [0.0]
    return Log(level, form, write=written.append, journal=journal, clock=lambda: now[0]), written, now


def test_log_text() -> None:
    log, written, _now = lines(journal=True)
    log.error("cannot", object="shop/web", reason='a "b"')
    log.debug("never")
    assert written == ['<3>cannot object=shop/web reason="a \\"b\\""\n']


def test_log_json() -> None:
    log, written, _now = lines("debug", "json")
    log.debug("step", seconds=1.5, key=("a", 1))
    record = json.loads(written[0])
    assert (record["level"], record["message"], record["seconds"], record["key"]) == ("debug", "step", 1.5, ["a", 1])


def test_journal_lines_alone_have_a_priority(tmp_path: Path) -> None:
    """A process with redirected standard error still inherits JOURNAL_STREAM."""
    command = [sys.executable, "-c", "from kubenode.log import Log; Log().warning('x', name='a')"]
    path = tmp_path / "log"

    def written(stream: str) -> str:
        with path.open("w", encoding="utf-8") as file:
            environment = {**os.environ, "JOURNAL_STREAM": stream, "PYTHONPATH": os.pathsep.join(sys.path)}
            subprocess.run(command, stderr=file, env=environment, check=True)
        return path.read_text(encoding="utf-8")

    path.touch()
    about = path.stat()
    assert written(f"{about.st_dev}:{about.st_ino}") == "<4>x name=a\n"
    assert written(f"{about.st_dev}:{about.st_ino + 1}").endswith("Z WARNING x name=a\n")


def test_repeated_lines_are_counted_not_written() -> None:
    log, written, now = lines(journal=True)
    for _time in range(5):
        log.error("cannot", reason="x")
    log.error("cannot", reason="y")
    assert len(written) == 2
    now[0] = 301
    log.error("cannot", reason="x")
    assert written[2] == "<3>cannot reason=x repeated=4\n"
    log.info("same")
    log.info("same")
    assert len(written) == 5


def test_bulk_items_are_logged_up_to_the_quota() -> None:
    log, written, _now = lines(journal=True)
    assert log.first("drift healed", range(50)) == range(50)
    assert written == []
    assert log.first("drift healed", range(100_000)) == range(50)
    assert written == ['<4>drift healed all=100000 reason="line limit reached; 50 lines follow"\n']


def heal(log: Log, things: range) -> None:
    for item in log.first("drift healed", things):
        log.warning("drift healed", step=item, reason="another process")


def test_repeated_bulk_drift_stays_within_the_quota() -> None:
    log, written, now = lines(journal=True)
    for _second in range(299):
        heal(log, range(1000))
        now[0] += 1
    assert written[0] == '<4>drift healed all=1000 reason="line limit reached; 50 lines follow"\n'
    assert len(written) == 51
    now[0] += 1
    heal(log, range(1000))
    assert written[51] == '<4>drift healed all=299000 reason="line limit reached; 50 lines follow"\n'
    assert written[52] == '<4>drift healed step=0 reason="another process"\n'
    assert len(written) == 102


def test_varying_drift_stays_within_the_quota() -> None:
    log, written, now = lines(journal=True)
    for number in range(1200):
        heal(log, range(number, number + 1))
        now[0] += 1
    assert len(written) == 4 * 51
    assert written[50] == '<4>drift healed all=1 reason="line limit reached; 0 lines follow"\n'
    assert written[51] == '<4>drift healed all=250 reason="line limit reached; 1 lines follow"\n'
    assert log.first("step failed", range(1)) == range(1)  # a different message


def test_repeated_drift_leaves_room_for_other_lines() -> None:
    log, written, now = lines(journal=True)
    for _second in range(200):
        heal(log, range(10))
        now[0] += 1
    heal(log, range(10, 11))
    assert len(written) == 11


def test_suppressed_lines_count_toward_the_quota() -> None:
    log = Log(write=lambda _line: None, clock=lambda: 0.0)
    assert list(log.first("step failed", [0])) == [0]
    for number in range(60):
        log.warning("step failed", number=number)
    assert list(log.first("step failed", range(30))) == []
