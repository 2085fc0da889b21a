# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Trial commands in a scratch network namespace: their results, and that a missing answer counts as a failure."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from support.processes.faults import Fault, later_in_child
from support.processes.namespace import sh

from kubenode.cli import main
from kubenode.engine.errors import EngineError, KernelError
from kubenode.engine.kernel.rtnetlink import addresses
from kubenode.engine.kernel.scratch import ScratchError, in_scratch


def test_changes_in_a_scratch_namespace_stay_there() -> None:
    before = sh("ip", "link")

    def made() -> list[str]:
        sh("ip", "link", "add", "nobodys", "type", "dummy")
        return sorted(addresses.read(["nobodys"])["link"])

    assert in_scratch(made) == ["nobodys"]
    assert sh("ip", "link") == before


def test_error_in_a_scratch_namespace_is_returned() -> None:
    def refused() -> None:
        raise EngineError("no such thing")

    with pytest.raises(ScratchError, match=r"\Ano such thing\Z"):
        in_scratch(refused)


@pytest.mark.parametrize(
    "ended",
    [lambda: os.kill(os.getpid(), signal.SIGKILL), lambda: 1 // 0, lambda: object()],
    ids=["killed", "fault", "no data"],
)
def test_child_without_an_answer_is_an_error(ended: Callable[[], Any]) -> None:
    with pytest.raises(KernelError, match="the process that tried it out ended without an answer; nothing was changed"):
        in_scratch(ended)


def test_failed_fork_is_an_error(tmp_path: Path) -> None:
    def tried(begin: Callable[[], None]) -> int:
        begin()
        try:
            in_scratch(lambda: 1)
        except KernelError as error:
            print(error)
        return len(os.listdir("/proc/self/fd"))

    refused = later_in_child(Fault("clone,clone3", "EAGAIN", "1"), tmp_path, tried)
    assert refused.output == (
        "no process could be started that tries it out: Resource temporarily unavailable; nothing was changed\n"
    )
    assert refused.status == later_in_child(Fault("clone,clone3", "EAGAIN", "9"), tmp_path, tried).status


def test_killed_child_makes_the_kernel_unfit(tmp_path: Path) -> None:
    """The kernel kills a process when it has a fault of its own, for example while it loads ip_vs."""
    subprocess.run(["modprobe", "-a", "ip_vs", "ip_vs_rr"], check=True)

    def checked(begin: Callable[[], None]) -> int:
        begin()
        return main(["check", "--run-dir", str(tmp_path)])

    outcome = later_in_child(Fault("unshare", "KILL", "1"), tmp_path, checked)
    assert outcome.status == 1
    assert "FAIL  the process that tried it out ended without an answer" in outcome.output
    assert "a virtual server could be made" not in outcome.output


def test_check_accepts_processes_of_any_name(tmp_path: Path) -> None:
    named = "open('/proc/self/comm', 'wb').write(b'caf\\xe9'); print(flush=True); input()"
    with subprocess.Popen(["python3", "-c", named], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
        try:
            assert other.stdout is not None
            other.stdout.readline()
            assert main(["check", "--run-dir", str(tmp_path)]) in (0, 1)
        finally:
            other.kill()
