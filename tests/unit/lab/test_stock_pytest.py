# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Pytest in a stock kernel: settings that cannot be are refused before anything starts, and QEMU's command."""

from __future__ import annotations

from pathlib import Path

import pytest
from lab import stock_pytest


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("KUBENODE_RELEASE", "etch", "KUBENODE_RELEASE='etch': expected one of bookworm, "),
        ("KUBENODE_IPTABLES", "ebtables", "KUBENODE_IPTABLES='ebtables': expected one of nft, legacy, none"),
    ],
)
def test_wrong_settings(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], name: str, value: str, message: str
) -> None:
    monkeypatch.setenv("PATH", "/usr/bin")  # main adds directories to it
    monkeypatch.setenv(name, value)
    monkeypatch.setattr(stock_pytest.signal, "signal", lambda *_: None)
    assert stock_pytest.main([]) == 2
    assert message in capsys.readouterr().err


def test_virtual_environment_is_needed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(stock_pytest, "ROOT", tmp_path)
    with pytest.raises(stock_pytest.HostError, match="run: make venv"):
        stock_pytest._check("bookworm", "nft")


def test_command_line_of_the_kernel() -> None:
    command = stock_pytest._qemu(Path("/a b/work"), Path("/image"), "legacy", "1G")
    line = command[command.index("-append") + 1]
    assert '"KUBENODE_WORK=/a b/work" "KUBENODE_IPTABLES=legacy" -- -c "modprobe virtiofs && ' in line
    assert command[command.index("-drive") + 1] == "file=/image/disk.ext4,format=raw,if=virtio,readonly=on"
    assert line.count('"') % 2 == 0
