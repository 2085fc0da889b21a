# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Server of a pod: answers HTTP requests, and datagrams on the same port, with the pod's name and the client's address.

Arguments: the pod's name, the port. An answer is ``{"pod": NAME, "client": ADDRESS}``; over HTTP as the body of a 200.
Bare sockets, because a node's Python takes seconds to import ``http.server``.
"""

from __future__ import annotations

import json
import select
import socket
import sys

REQUEST_TIMEOUT = 2.0  # seconds that a client may take to send its request


def answer(name: str, client: str) -> bytes:
    """Return the answer's body."""
    return json.dumps({"pod": name, "client": client}).encode()


def serve_http(connection: socket.socket, name: str, client: str) -> None:
    """Answer one request and close."""
    with connection:
        connection.settimeout(REQUEST_TIMEOUT)
        try:
            request = b""
            while b"\r\n\r\n" not in request:
                received = connection.recv(4096)
                if not received:
                    return
                request += received
            body = answer(name, client)
            head = (
                f"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\nConnection:"
                " close\r\n\r\n"
            )
            connection.sendall(head.encode() + body)
        except OSError:
            return  # the client is gone or too slow


def main(name: str, port: int) -> None:
    """Serve until killed."""
    tcp = socket.create_server(("", port), backlog=256)
    udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    udp.bind(("", port))
    while True:
        for ready in select.select([tcp, udp], [], [])[0]:
            if ready is tcp:
                connection, (client, _) = tcp.accept()
                serve_http(connection, name, client)
            else:
                _, source = udp.recvfrom(4096)
                udp.sendto(answer(name, source[0]), source)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
