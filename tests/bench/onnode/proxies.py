# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Run service proxies as a controller demands, and tell it at once when the kernel has an endpoint. Runs on the node.

Argument: port. One connection; each line is a JSON object with a command `do`, and has one line as its answer.
A line `{"arrived": number}` follows for each awaited endpoint, when the kernel has it.
"""

from __future__ import annotations

import json
import select
import signal
import socket
import sys
import time
from typing import Any

from engine.model.ipvs import VirtualServerKey
from kernel_views import Awaited, Expected
from proxy_process import Proxy, clean, state


class Observer:
    """Commands of the controller, by name."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._lines = connection.makefile("r")
        self._proxy: Proxy | None = None
        self._expected = Expected(frozenset(), frozenset())
        self._awaited: list[Awaited] = []

    def run(self) -> None:
        """Serve until the controller closes the connection."""
        while True:
            view = self._proxy.view if self._proxy and self._awaited else None
            files = [self._connection, *([view.file] if view and view.file is not None else [])]
            readable, _, _ = select.select(files, [], [], view.pause if view else None)
            if view:
                for item in view.arrived(self._awaited):
                    self._awaited.remove(item)
                    self._send({"arrived": item.number})
            if self._connection in readable:
                line = self._lines.readline()
                if not line:
                    return
                command = json.loads(line)
                self._send({"result": getattr(self, f"do_{command.pop('do')}")(**command)})

    def _send(self, value: object) -> None:
        self._connection.sendall(json.dumps(value).encode() + b"\n")

    def do_expect(self, servers: list[tuple[str, str, int]], endpoints: list[str]) -> None:
        """Replace the expected state."""
        self._expected = Expected(frozenset((each[0], each[1], each[2]) for each in servers), frozenset(endpoints))

    def do_start(self, command: list[str], view: str, notifies: bool) -> float:
        """Start a proxy; return the seconds until all is in place."""
        self._proxy = Proxy(command, view, notifies)
        return self._proxy.start(self._expected)

    def do_missing(self) -> str:
        """Return a remark about the expected state that the kernel does not have."""
        assert self._proxy
        return str(self._proxy.view.missing(self._expected))

    def do_open(self) -> None:
        """Prepare for awaited endpoints."""
        assert self._proxy
        self._proxy.view.open()

    def do_close(self) -> None:
        """Forget awaited endpoints."""
        assert self._proxy
        self._awaited.clear()
        self._proxy.view.close()

    def do_await(self, number: int, address: str, server: list[Any]) -> None:
        """Await an endpoint."""
        self._awaited.append(Awaited(number, address, VirtualServerKey(server[0], server[1], server[2], 4)))

    def do_memory(self, field: str) -> float:
        """Return resident memory in MiB."""
        assert self._proxy
        return self._proxy.memory(field)

    def do_state(self, view: str) -> list[str]:
        """Return the kernel's state."""
        return state(view)

    def do_kill(self) -> None:
        """Kill the proxy."""
        assert self._proxy
        self._proxy.stop(signal.SIGKILL)

    def do_stop(self) -> None:
        """End the proxy and remove all that it made."""
        if self._proxy:
            self._proxy.stop()
        self._proxy = None
        clean()

    def do_sleep(self, seconds: float) -> None:
        """Do nothing."""
        time.sleep(seconds)


def main(port: int) -> None:
    """Serve one controller."""
    with socket.create_server(("", port)) as server:
        print("listening", flush=True)
        connection, _address = server.accept()
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    Observer(connection).run()


if __name__ == "__main__":
    main(int(sys.argv[1]))
