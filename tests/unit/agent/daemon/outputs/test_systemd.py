# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Notifications to systemd over its protocol."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest

from kubenode.daemon.outputs.systemd import Notifier


def test_notify_sends_the_state_to_systemd(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(str(tmp_path / "notify"))
        manager.settimeout(60)
        monkeypatch.setenv("NOTIFY_SOCKET", str(tmp_path / "notify"))
        monkeypatch.setenv("WATCHDOG_USEC", "60000000")
        notifier = Notifier()
        assert "NOTIFY_SOCKET" not in os.environ  # tools that the agent starts must not inherit it
        assert notifier.watchdog == 30
        notifier.status("waiting for x")
        notifier.status("waiting for x")
        notifier.ready()
        notifier.alive()
        notifier.reloading()
        notifier.stopping()
        heard = [manager.recv(1000).decode() for _number in range(5)]
    assert heard[:3] == ["STATUS=waiting for x", "READY=1", "WATCHDOG=1"]
    assert heard[3].startswith("RELOADING=1\nMONOTONIC_USEC=")
    assert heard[4] == "STOPPING=1"


def test_watchdog_of_another_process_is_ignored(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WATCHDOG_USEC", "60000000")
    monkeypatch.setenv("WATCHDOG_PID", "1")
    assert Notifier().watchdog == 0
