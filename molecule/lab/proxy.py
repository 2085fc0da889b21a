# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Connect ssh into a lab's namespace, pass the connection on, end (ProxyCommand with ProxyUseFdpass).

Arguments: namespace, address, port. Standard output is the socket on which ssh expects the connection.
"""

from __future__ import annotations

import socket
import sys
from pathlib import Path


def main(namespace: str, address: str, port: str) -> int:
    """Connect and pass the connection to ssh."""
    sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
    from lab.errors import LabError
    from lab.netns import inside

    try:
        with inside(namespace):
            connection = socket.create_connection((address, int(port)), timeout=20)
    except (LabError, OSError) as error:
        print(f"{namespace}: {address} port {port}: {error}", file=sys.stderr)
        return 1
    connection.settimeout(None)
    with socket.socket(fileno=sys.stdout.fileno()) as ssh:
        socket.send_fds(ssh, [b"\0"], [connection.fileno()])
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
