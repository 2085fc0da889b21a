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

from ..interfaces import AgentControl
from ..loop import Timer
from ..pass_result import PassResult, PassSubscriber
from .summary import summary

_STATUS_PAUSE = 1.0  # seconds between two status lines, each of which costs systemd a lot


class Notifier:
    """Sends one datagram a call to the socket that ``NOTIFY_SOCKET`` names.

    ``watchdog`` are the seconds between signs of life, 0 if systemd expects none. ``started`` tells whether
    :meth:`ready` was called.
    """

    def __init__(self) -> None:
        self.started = False
        self._address = os.environ.pop("NOTIFY_SOCKET", "")  # not for the tools that the agent starts
        if self._address.startswith("@"):
            self._address = "\0" + self._address[1:]
        ours = os.environ.pop("WATCHDOG_PID", str(os.getpid())) == str(os.getpid())
        microseconds = os.environ.pop("WATCHDOG_USEC", "0")
        self.watchdog = int(microseconds) / 2e6 if ours and microseconds.isdigit() else 0.0
        self._status = ""

    def ready(self) -> None:
        """End the start or a reload: units that depend on the agent's may start."""
        self.started = True
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
        """Begin a reload; :meth:`ready` ends it."""
        self._send(f"RELOADING=1\nMONOTONIC_USEC={int(time.monotonic() * 1e6)}")

    def extend(self, seconds: int) -> None:
        """Ask for more time to start, reload or stop."""
        self._send(f"EXTEND_TIMEOUT_USEC={seconds * 1000000}")

    def stopping(self) -> None:
        """Begin to stop."""
        self._send("STOPPING=1")

    def _send(self, text: str) -> None:
        if not self._address:
            return
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as channel:
                channel.sendto(text.encode(), self._address)
        except OSError:
            pass  # a service manager that does not listen is no reason to stop serving


class StatusLine(PassSubscriber):
    """Shows the node's state in ``systemctl status``: at once during the start, then at most once a second."""

    def __init__(self, agent: AgentControl, notifier: Notifier) -> None:
        self._agent = agent
        self._notifier = notifier
        self._timer: Timer | None = None
        self._sent_at = 0.0

    def delayed(self) -> None:
        """Show why a pass waits."""
        self._update()

    def passed(self, _result: PassResult, _reason: str) -> None:
        """Show the state after a pass."""
        self._update()

    def _update(self) -> None:
        wait = self._sent_at + _STATUS_PAUSE - time.monotonic()
        if wait <= 0 or not self._notifier.started:
            self._sent_at = time.monotonic()
            waiting = self._agent.waiting
            self._notifier.status(f"waiting: {waiting}" if waiting else summary(self._agent))
        elif self._timer is None or not self._timer.pending:
            self._timer = self._agent.loop.after(wait, self._update)
