# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Messages NFT_MSG_TRACE of a lab kernel (Linux 7.2), recorded while one client asked a Service.

``forwarded`` (client outside), ``bridged`` (a pod of the node's bridge, the whole connection), ``ipv6``, ``dropped`` by
a rule of another program, and by its ``policy``.
"""

from __future__ import annotations

import json
from pathlib import Path

_FILE = Path(__file__).with_name("nft_traces.json")


def recorded_trace(name: str) -> list[bytes]:
    """Return the netlink packets in order."""
    return [bytes.fromhex(text) for text in json.loads(_FILE.read_text())[name]]
