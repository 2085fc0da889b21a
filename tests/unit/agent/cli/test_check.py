# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Other proxies that run on a node, recognised by process name, or an agent by its socket.

Rights, modules and the kernel are tested elsewhere.
"""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from support.waiting import eventually

from kubenode import container
from kubenode.cli import check, others

NAMES = ("kube-proxy", "kube-router", "cilium-agent", "keepalived", "kubelet")


@pytest.fixture
def running(tmp_path: Path) -> Iterator[dict[str, int]]:
    """Start a process with each of these names; yield their process numbers."""
    with ExitStack() as stack:
        processes = {}
        for name in NAMES:
            (tmp_path / name).symlink_to("/bin/sleep")
            processes[name] = stack.enter_context(subprocess.Popen([tmp_path / name, "infinity"]))
        # Popen returns when the parent's end of the exec pipe closes, before the kernel has given the child its new
        # name.
        for name, process in processes.items():
            comm = Path(f"/proc/{process.pid}/comm")
            eventually(lambda comm=comm, name=name: comm.read_text().strip() == name)
        yield {name: process.pid for name, process in processes.items()}
        for process in processes.values():
            process.kill()


@pytest.mark.parametrize(("beside_kube_proxy", "failing"), [(False, ["kube-proxy"]), (True, [])])
def test_check_names_other_service_proxies(
    running: dict[str, int], beside_kube_proxy: bool, failing: list[str]
) -> None:
    lines = [
        (verdict, words)
        for verdict, words in check._others(beside_kube_proxy)
        if any(f"(pid {pid})" in words for pid in running.values())
    ]
    assert sorted(words.split()[0] for _verdict, words in lines) == sorted(set(NAMES) - {"kubelet"})
    assert [words.split()[0] for verdict, words in lines if verdict != "note"] == failing
    assert all(
        f"{name} is running (pid {running[name]}): " in " ".join(words for _verdict, words in lines)
        for name in check._OTHERS
    )


@pytest.mark.parametrize(
    ("beside_daemonset", "in_container", "verdict"),
    [(False, False, "FAIL"), (True, False, "note"), (True, True, "FAIL")],
)
def test_check_accepts_a_container_only_beside_a_daemonset(
    monkeypatch: pytest.MonkeyPatch, beside_daemonset: bool, in_container: bool, verdict: str
) -> None:
    monkeypatch.setattr(container, "is_in_container", lambda: in_container)
    monkeypatch.setattr(others, "other_agent", lambda _directory, *, in_container: f"another agent {in_container}")
    assert list(check._other_agent("/run/x", beside_daemonset)) == [(verdict, f"another agent {in_container}")]
