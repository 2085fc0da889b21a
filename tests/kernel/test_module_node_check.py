# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The module node_check on the kernel: features that exist, that are missing, and that no package provides."""

from __future__ import annotations

import contextlib
import hashlib
import os
import platform
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from kernel.modules import run

from ansible_collections.kubenode.ipvs.plugins.module_utils._host import facts as _node


@pytest.fixture(autouse=True)
def no_container(monkeypatch: pytest.MonkeyPatch) -> None:
    """Hide that the machine, whose files this kernel shows, may be a container."""
    monkeypatch.setattr(_node, "container_kind", lambda: None)


def test_fit_node_is_reported(tmp_path: Path) -> None:
    subprocess.run(["modprobe", "ip_vs"], check=True)
    (tmp_path / "file").write_text("text")
    given = {"modules": ["ip_vs", "ip_set_hash_mac"], "commands": ["ipset", "ipvsadm"]}
    result = run("node_check", files=[str(tmp_path / "file"), str(tmp_path / "nosuch")], **given)
    assert (result["fit"], result["problems"], result["refused"]) == (True, [], [])
    assert result["lacks"] == {"commands": [], "modules": [], "packages": []}
    assert result["modules"]["ip_vs"] == "loaded"
    assert result["virtualization"] == {"uml": "uml", "stock": "qemu"}[os.environ["KUBENODE_KERNEL"]]
    assert result["agent_in_container"] is False
    assert result["kernel"] == platform.release()
    digest = hashlib.sha256(b"text").hexdigest()
    assert list(result["contents"].values()) == [digest, None]
    assert list(result["files"].values()) == [True, False]
    assert result["changed"] is False


def test_all_lacking_prerequisites_are_reported_at_once() -> None:
    result = run("node_check", modules=["ip_vs", "no_such|nor_this", "nor_that"], commands=["no-such-command"])
    lacks = {"commands": ["no-such-command"], "modules": ["no_such|nor_this", "nor_that"], "packages": []}
    assert result["lacks"] == lacks
    command, modules = result["problems"]
    assert command == "command no-such-command is not installed"
    assert modules.startswith(
        f"kernel {platform.release()} has no module no_such or nor_this, nor_that: neither loaded, nor built in, nor"
        f" under /lib/modules/{platform.release()}. "
    )
    assert (result["fit"], result["refused"]) == (False, [])


@pytest.fixture
def sealed() -> Iterator[None]:
    """Make kernel parameters read-only, as in most containers."""
    subprocess.run(["mount", "--bind", "/proc/sys", "/proc/sys"], check=True)
    subprocess.run(["mount", "-o", "remount,bind,ro", "/proc/sys"], check=True)
    yield
    subprocess.run(["umount", "/proc/sys"], check=True)


def test_refused_node_is_reported(sealed: None) -> None:
    result = run("node_check", modules=["ip_vs"], commands=["ipset"])
    assert result["refused"] == [
        "/proc/sys/net/ipv4/ip_forward is read-only, expected to be written to (kernel parameters)"
    ]
    assert result["problems"] == result["refused"]
    assert result["fit"] is False


@pytest.mark.parametrize("size", ["size=8k", "nr_inodes=2"])
def test_full_disk_is_a_problem(size: str) -> None:
    subprocess.run(["mount", "-t", "tmpfs", "-o", size, "memory", "/var/lib"], check=True)
    try:
        assert run("node_check", modules=[], commands=[])["refused"] == []
        with contextlib.suppress(OSError):
            for number in range(9):
                Path(f"/var/lib/{number}").write_bytes(b"x" * 4096)
        assert run("node_check", modules=[], commands=[])["refused"] == [
            "/var/lib has no space left, expected some (the ledger)"
        ]
    finally:
        subprocess.run(["umount", "/var/lib"], check=True)
