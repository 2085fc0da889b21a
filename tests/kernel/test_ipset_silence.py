# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Silent failures of ipset(8), which the engine must not take for success.

ipset(8) ends with status 0 and without a message when its first conversation with the kernel fails.
"""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest
from support.processes.namespace import fresh, sh

from kubenode.engine.errors import KernelError
from kubenode.engine.kernel.ipset.read import read_saved
from kubenode.engine.kernel.ipset.tool import query, restore

SETS = ["create A hash:ip", "add A 192.0.2.1", "create B hash:ip"]


@pytest.fixture(autouse=True)
def _node() -> None:
    subprocess.run(["modprobe", "-a", "ip_set", "ip_set_hash_ip"], check=True)
    fresh()


@pytest.fixture(params=["sendto", "recvmsg"])
def fault(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Make an ipset in which this system call fails once in each run, as long as the file exists."""
    real, broken = shutil.which("ipset"), tmp_path / "broken"
    inject = f"strace -f -qq -o /dev/null -e trace={request.param} -e inject={request.param}:error=ENOMEM:when=1"
    tool = tmp_path / "ipset"
    tool.write_text(f'#!/bin/sh\n[ ! -e {broken} ] || exec {inject} {real} "$@"\nexec {real} "$@"\n')
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    broken.touch()
    return broken


def test_silent_write_failure_is_not_counted_as_done(fault: Path) -> None:
    with pytest.raises(
        KernelError, match=r"^ipset restore: it ended as if all was well, but the kernel did not answer it$"
    ):
        restore(SETS)
    fault.unlink()
    assert sh("ipset", "list", "-n") == ""
    assert restore(SETS) is None
    assert sh("ipset", "list", "-n").split() == ["A", "B"]


def test_silent_removal_failure_is_not_counted_as_done(fault: Path) -> None:
    fault.unlink()
    restore(SETS)
    fault.touch()
    with pytest.raises(KernelError, match="did not answer"):
        restore(["destroy A", "destroy B"])
    fault.unlink()
    assert sh("ipset", "list", "-n").split() == ["A", "B"]
    assert restore(["destroy A", "destroy B"]) is None
    assert sh("ipset", "list", "-n") == ""
    assert query(["save", "A"]) == b""


def test_silent_read_failure_is_no_absence(fault: Path) -> None:
    fault.unlink()
    restore(SETS)
    fault.touch()
    for names in (["A"], None):
        with pytest.raises(KernelError, match="did not answer"):
            read_saved(names)
    fault.unlink()
    assert set(read_saved()) == {"A", "B"}
    restore(["destroy A", "destroy B"])
    assert read_saved() == {}
