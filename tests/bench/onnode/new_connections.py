# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Measure new connections to an address and port. Runs on the node, in a namespace of it, or on the controller.

Arguments: address, port, connections. Standard output: JSON with the lists ``whole`` (seconds from the request until
the server has closed the connection) and ``first`` (seconds until the first packet has its answer).

With 0 connections: connect one after another, with a timeout of one second, until standard input ends. Then the output
has ``failed`` and ``connections``, and a line ``started`` comes before.
"""

from __future__ import annotations

import json
import select
import socket
import struct
import sys
import time

_PAUSE = 0.002  # seconds between two connections of a long run
_END_AT_ONCE = struct.pack("ii", 1, 0)  # SO_LINGER: a reset, so that no port is in use afterwards


def connect(target: tuple[str, int], timeout: float) -> tuple[float, float]:
    """Connect and wait for the server's byte; return the seconds until the connection stood, and until the byte came.

    Raises:
        OSError: there is no connection, or no byte.
    """
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as client:
        client.settimeout(timeout)
        began = time.perf_counter()
        client.connect(target)
        first = time.perf_counter() - began
        if not client.recv(1):
            raise ConnectionError("the server closed without a byte")
        whole = time.perf_counter() - began
        client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _END_AT_ONCE)
    return first, whole


def run(target: tuple[str, int]) -> dict[str, int]:
    """Connect until standard input ends; return the number of connections and of failed ones."""
    print("started", flush=True)
    count = failed = 0
    while not select.select([sys.stdin], [], [], _PAUSE)[0]:
        count += 1
        try:
            connect(target, 1)
        except OSError:
            failed += 1
    return {"connections": count, "failed": failed}


def main(address: str, port: int, count: int) -> None:
    """Measure."""
    target = address, port
    if not count:
        print(json.dumps(run(target)))
        return
    for _ in range(20):  # warms up
        connect(target, 5)
    samples = [connect(target, 5) for _ in range(count)]
    print(json.dumps({"first": [first for first, _ in samples], "whole": [whole for _, whole in samples]}))


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
