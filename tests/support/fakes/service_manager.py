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
        self._heard: list[str] = []
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.setblocking(False)
        self._socket.bind(path)

    @property
    def heard(self) -> list[str]:
        """Return all messages until now."""
        while True:
            try:
                self._heard.append(self._socket.recv(65536).decode())
            except BlockingIOError:
                return self._heard

    @property
    def ready(self) -> bool:
        """Whether the unit has reported READY=1."""
        return "READY=1" in self.heard

    @property
    def status(self) -> str:
        """Line that ``systemctl status`` would show now."""
        return next((text.removeprefix("STATUS=") for text in reversed(self.heard) if text.startswith("STATUS=")), "")

    def close(self) -> None:
        """Close the socket."""
        self._socket.close()
