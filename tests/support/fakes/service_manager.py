# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Receiver of sd_notify(3) messages: the state of an agent as systemd has it."""

from __future__ import annotations

import socket
from pathlib import Path


class ServiceManager:
    """Receives messages from its creation until :meth:`close`; ``environment`` is for the agent."""

    def __init__(self, directory: Path) -> None:
        path = str(directory / "notify")
        self.environment = {"NOTIFY_SOCKET": path}
        self._messages: list[str] = []
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.setblocking(False)
        self._socket.bind(path)

    @property
    def messages(self) -> list[str]:
        """Return all messages until now."""
        while True:
            try:
                self._messages.append(self._socket.recv(65536).decode())
            except BlockingIOError:
                return self._messages

    @property
    def ready(self) -> bool:
        """Return true if units that wait for this unit have begun."""
        return "READY=1" in self.messages

    @property
    def status(self) -> str:
        """The line that ``systemctl status`` would show now."""
        return next(
            (text.removeprefix("STATUS=") for text in reversed(self.messages) if text.startswith("STATUS=")), ""
        )

    def close(self) -> None:
        """Close the socket."""
        self._socket.close()
