# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Notify systemd of the agent's state (sd_notify(3)).

Without ``NOTIFY_SOCKET`` nothing is sent.
"""

from __future__ import annotations

import os
import socket
import time


class Notifier:
    """One datagram a call, to the socket that ``NOTIFY_SOCKET`` names."""

    def __init__(self) -> None:
        self._address = os.environ.pop("NOTIFY_SOCKET", "")  # not for the tools that we start
        if self._address.startswith("@"):
            self._address = "\0" + self._address[1:]
        ours = os.environ.pop("WATCHDOG_PID", str(os.getpid())) == str(os.getpid())
        microseconds = os.environ.pop("WATCHDOG_USEC", "0")
        # seconds between signs of life
        self.watchdog = int(microseconds) / 2e6 if ours and microseconds.isdigit() else 0.0
        self._status = ""

    def ready(self) -> None:
        """Started: what depends on the unit may start."""
        self._send("READY=1")

    def status(self, text: str) -> None:
        """Set the line that ``systemctl status`` shows."""
        if text != self._status:
            self._status = text
            self._send(f"STATUS={text}")

    def alive(self) -> None:
        """Keep the watchdog quiet."""
        self._send("WATCHDOG=1")

    def reloading(self) -> None:
        """A reload begins; :meth:`ready` ends it."""
        self._send(f"RELOADING=1\nMONOTONIC_USEC={int(time.monotonic() * 1e6)}")

    def extend(self, seconds: int) -> None:
        """Ask for more time to start, reload or stop."""
        self._send(f"EXTEND_TIMEOUT_USEC={seconds * 1000000}")

    def stopping(self) -> None:
        """Say that we are going."""
        self._send("STOPPING=1")

    def _send(self, text: str) -> None:
        if not self._address:
            return
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as channel:
                channel.sendto(text.encode(), self._address)
        except OSError:
            pass  # a service manager that does not listen is no reason to stop serving
