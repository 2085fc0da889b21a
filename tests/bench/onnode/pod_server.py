# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Server of a pod: one byte for each connection. Runs in the pod's namespace until it is killed. Argument: port."""

from __future__ import annotations

import socket
import sys
from contextlib import suppress


def main(port: int) -> None:
    """Serve."""
    with socket.create_server(("", port), backlog=1024) as server:
        while True:
            connection, _address = server.accept()
            with connection, suppress(OSError):
                connection.sendall(b".")


if __name__ == "__main__":
    main(int(sys.argv[1]))
