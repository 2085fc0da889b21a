# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Connection to the script on the node that runs the proxies (``onnode/proxies.py``). Use it in the lab's namespace."""

from __future__ import annotations

import json
import queue
import socket
import subprocess
import threading
import time
from typing import TYPE_CHECKING, Any, NoReturn

from lab import naming

from ..node import DIRECTORY

if TYPE_CHECKING:
    from ..node import Node

PORT = 7000
_PATIENCE = 1800.0  # seconds for a command


class Observer:
    """Sends commands, and notes at which time the node reports an endpoint."""

    def __init__(self, node: Node) -> None:
        self.arrived: dict[int, float] = {}
        self._answers: queue.Queue[Any] = queue.Queue()
        command = f"cd {DIRECTORY} && PYTHONPATH=. exec python3 -u onnode/proxies.py {PORT}"
        self._process = subprocess.Popen(
            ["ssh", "-F", str(node.lab.directory / "ssh_config"), node.name, command],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        assert self._process.stdout
        self._process.stdout.readline()
        self._socket = socket.create_connection((naming.node_addresses(0).ipv4, PORT), 10)
        self._socket.settimeout(None)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        threading.Thread(target=self._listen, daemon=True).start()

    def _listen(self) -> None:
        with self._socket.makefile("rb") as lines:
            for line in lines:
                now = time.perf_counter()
                answer = json.loads(line)
                if "arrived" in answer:
                    self.arrived[answer["arrived"]] = now
                else:
                    self._answers.put(answer["result"])
        self._answers.put(EOFError)

    def do(self, verb: str, **arguments: Any) -> Any:
        """Send a command and return its result.

        Raises:
            RuntimeError: the script has ended; with its last words.
        """
        self._socket.sendall(json.dumps({"do": verb, **arguments}).encode() + b"\n")
        answer = self._answers.get(timeout=_PATIENCE)
        if answer is EOFError:
            self._fail()
        return answer

    def _fail(self) -> NoReturn:
        assert self._process.stderr
        raise RuntimeError(f"the script on the node ended: {self._process.stderr.read().decode()[-3000:]}")

    def wait(self, number: int, seconds: float) -> float:
        """Return the time at which an endpoint was reported.

        Raises:
            RuntimeError: it was not, within ``seconds``.
        """
        deadline = time.perf_counter() + seconds
        while number not in self.arrived:
            if self._process.poll() is not None:
                self._fail()
            if time.perf_counter() > deadline:
                raise RuntimeError(f"endpoint {number} did not arrive within {seconds:.0f} s")
            time.sleep(0.005)
        return self.arrived.pop(number)

    def close(self) -> None:
        """End the script."""
        self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()
        self._process.wait(60)
