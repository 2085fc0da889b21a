# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Sends requests, each over a new connection, and prints for each its time and the pod that answered.

Standard input: in one line, a JSON list of jobs ``{"protocol": "tcp" | "udp", "targets": [[address, port], …], "count":
N, "interval": S, "until_end": bool}``. The targets of a job take turns. Its requests start ``interval`` seconds apart,
or later if answers are late. With ``until_end`` it sends no more once standard input has ended, even if that makes
fewer than ``count``.

Standard output: a JSON list with one list per job of ``[target, sent, seconds, pod, client]``, or ``[target, sent,
seconds, null, error]`` for a request without an answer within TIMEOUT seconds. ``target`` is an index, ``sent`` the
clock's time. One process sends many requests, because a node takes a quarter of a second to start Python.
"""

from __future__ import annotations

import json
import select
import socket
import sys
import time

TIMEOUT = 2.0


def ask_http(address: str, port: int) -> bytes:
    """Return the body of the answer to one HTTP request."""
    with socket.create_connection((address, port), timeout=TIMEOUT) as connection:
        connection.sendall(f"GET / HTTP/1.1\r\nHost: {address}:{port}\r\nConnection: close\r\n\r\n".encode())
        received = b""
        while part := connection.recv(4096):
            received += part
    head, _, body = received.partition(b"\r\n\r\n")
    if not head.startswith(b"HTTP/1.1 200 "):
        raise OSError(f"answer {head[:40]!r}, expected HTTP/1.1 200")
    return body


def ask_udp(address: str, port: int) -> bytes:
    """Return the answer to one datagram."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as connection:
        connection.settimeout(TIMEOUT)
        connection.connect((address, port))
        connection.send(b"who are you?")
        return connection.recv(4096)


ASK = {"tcp": ask_http, "udp": ask_udp}


def run(job: dict) -> list:
    """Send a job's requests one after the other; return a line for each."""
    ask, targets, interval = ASK[job["protocol"]], job["targets"], job["interval"]
    lines = []
    due = time.monotonic()
    for number in range(job["count"]):
        if job["until_end"] and select.select([sys.stdin], [], [], 0)[0]:
            break
        time.sleep(max(0.0, due - time.monotonic()))
        due += interval
        index = number % len(targets)
        sent, began = time.time(), time.monotonic()
        try:
            answer = json.loads(ask(*targets[index]))
            pod, seen = answer["pod"], answer["client"]
        except (OSError, ValueError, KeyError) as error:
            pod, seen = None, f"{type(error).__name__}: {error}"
        lines.append([index, sent, time.monotonic() - began, pod, seen])
    return lines


if __name__ == "__main__":
    json.dump([run(job) for job in json.loads(sys.stdin.readline())], sys.stdout)
