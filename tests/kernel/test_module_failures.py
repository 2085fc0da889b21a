# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Faults of the node, not of the task: one clear message, and no partial change."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from kernel.modules import ModuleError, run

FORWARD = Path("/proc/sys/net/ipv4/ip_forward")
SYSCTL_FILE = Path("/etc/sysctl.d/90-kubenode-ansible.conf")


@pytest.fixture(autouse=True)
def clean() -> Iterator[None]:
    FORWARD.write_text("0")
    yield
    shutil.rmtree("/var/lib/kubenode", ignore_errors=True)


@contextlib.contextmanager
def mounted(directory: str, options: str) -> Iterator[None]:
    subprocess.run(["mount", "-t", "tmpfs", "-o", options, "tmpfs", directory], check=True)
    try:
        yield
    finally:
        subprocess.run(["umount", directory], check=True)


def test_read_only_file_system_keeps_live_values() -> None:
    with mounted("/etc/sysctl.d", "ro"), pytest.raises(ModuleError) as error:
        run("sysctls", sysctls={"net.ipv4.ip_forward": 1})
    assert f"file {SYSCTL_FILE} cannot be written: Read-only file system" in str(error.value)
    assert str(error.value).endswith("; nothing was changed")
    assert FORWARD.read_text() == "0\n"


def test_full_disk_keeps_the_existing_file() -> None:
    with mounted("/etc/sysctl.d", "size=8k"):
        run("sysctls", sysctls={"net.ipv4.ip_forward": 1})
        before = SYSCTL_FILE.read_bytes()
        with contextlib.suppress(OSError), Path("/etc/sysctl.d/filler").open("wb", buffering=0) as filler:
            while True:
                filler.write(b"x" * 1024)
        with pytest.raises(ModuleError, match="cannot be written: No space left on device"):
            run("sysctls", sysctls={"net.ipv4.ip_forward": 0})
        assert SYSCTL_FILE.read_bytes() == before
        assert sorted(os.listdir("/etc/sysctl.d")) == [SYSCTL_FILE.name, "filler"]
        assert FORWARD.read_text() == "1\n"


def test_read_only_proc_sys_is_named() -> None:
    subprocess.run(["mount", "--bind", "-o", "ro", "/proc/sys", "/proc/sys"], check=True)
    subprocess.run(["mount", "-o", "remount,ro,bind", "/proc/sys"], check=True)
    try:
        with pytest.raises(
            ModuleError, match=r"sysctl net\.ipv4\.ip_forward: /proc/sys is read-only here \(a container\?\)"
        ):
            run("sysctls", sysctls={"net.ipv4.ip_forward": 1})
    finally:
        subprocess.run(["umount", "/proc/sys"], check=True)
    assert not SYSCTL_FILE.exists()


def test_irregular_persistent_file_changes_nothing() -> None:
    SYSCTL_FILE.mkdir(parents=True)
    try:
        with pytest.raises(ModuleError) as error:
            run("sysctls", sysctls={"net.ipv4.ip_forward": 1})
        assert str(error.value) == f"file {SYSCTL_FILE} cannot be read: Is a directory; nothing was changed"
    finally:
        SYSCTL_FILE.rmdir()
    assert FORWARD.read_text() == "0\n"


def test_full_disk_of_the_ledger_changes_nothing() -> None:
    ledger = Path("/var/lib/kubenode")
    ledger.mkdir(parents=True, exist_ok=True)
    with mounted(str(ledger), "size=64k"):
        with contextlib.suppress(OSError), (ledger / "filler").open("wb", buffering=0) as filler:
            while True:
                filler.write(b"x" * 1024)
        with pytest.raises(ModuleError, match=r"^ledger /var/lib/kubenode/ledger\.db .*; nothing was changed$"):
            run("sysctls", sysctls={"net.ipv4.ip_forward": 1})
    assert FORWARD.read_text() == "0\n"
    assert not SYSCTL_FILE.exists()


@pytest.mark.parametrize("module", ["ipvs_services", "virtual_addresses", "ipsets", "iptables_chains"])
def test_unreadable_ledger_purges_nothing(module: str) -> None:
    ledger = Path("/run/kubenode/ledger.db")
    ledger.parent.mkdir(exist_ok=True)
    ledger.unlink(missing_ok=True)
    ledger.write_bytes(b"not a database" * 100)
    try:
        for arguments in ({"purge": "all"}, {"check": True}):
            with pytest.raises(
                ModuleError, match=r"^ledger /run/kubenode/ledger\.db cannot be opened: .*; nothing was changed$"
            ):
                run(module, **arguments)
    finally:
        ledger.unlink()


@pytest.mark.parametrize(
    ("module", "arguments", "tool"),
    [
        ("ipsets", {"sets": [{"name": "s", "type": "hash:ip"}]}, "ipset"),
        ("iptables_chains", {"chains": [{"name": "X"}]}, "iptables-save"),
    ],
)
def test_missing_tool_is_named(
    monkeypatch: pytest.MonkeyPatch, module: str, arguments: dict[str, object], tool: str
) -> None:
    from ansible_collections.kubenode.ipvs.plugins.module_utils.engine.kernel import command

    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.setattr(command, "_SYSTEM_DIRECTORIES", "/nowhere")
    with pytest.raises(
        ModuleError, match=f"^the tool {tool} is missing; install the package {tool.partition('-')[0]}$"
    ):
        run(module, **arguments)


def test_set_used_by_a_rule_is_not_removed() -> None:
    run("ipsets", sets=[{"name": "used", "type": "hash:ip"}])
    run("iptables_chains", chains=[{"name": "USER", "rules": ["-m set --match-set used src -j DROP"]}])
    try:
        with pytest.raises(
            ModuleError, match="set used is in use: rules of iptables or sets of type list:set refer to it"
        ):
            run("ipsets", sets=[{"name": "used", "state": "absent"}])
    finally:
        run("iptables_chains", purge="owned")
        run("ipsets", purge="owned")
