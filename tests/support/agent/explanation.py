# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""An answer of ``kubenode explain`` with something in each field, for tests of its forms."""

from __future__ import annotations

from typing import Any


def answer(**more: Any) -> dict[str, Any]:
    target = {
        "real_server": "10.244.1.5:8080", "weight": 1, "client": "10.0.0.9", "masqueraded": False, "link": "cni0",
        "problem": "", "endpoint_slice": "", "decisions": [{"stage": "output", "text": "<b>out</b>", "owner": ""}],
    }  # fmt: skip
    return {
        "flow": "tcp 10.0.0.9 -> 10.96.0.1:80", "source": "10.0.0.9", "destination": "10.96.0.1", "port": 80,
        "service": "Service ns1/<web> port http", "verdict": "fault", "summary": "a & b", "predicted": "delivered",
        "fault": {"name": "x", "text": "a & b", "remedy": "do <this>"}, "targets": [target],
        "decisions": [{"stage": "arrival", "text": "on link eth0", "owner": "agent"}],
        "draining": ["10.244.1.6:8080"], "doubts": [], "lacking": ["the ledger"], "observed": {"probe": "refused"},
        **more,
    }  # fmt: skip


def traced_packet(**more: Any) -> dict[str, Any]:
    """Return a packet of a trace."""
    step = {
        "stage": "input", "text": "rule 2 (handle 5) of chain inet <fw> input accepts it", "owner": "agent",
        "table": "inet <fw>", "chain": "input", "rule": 2, "handle": 5, "verdict": "accept", "mark": 0,
    }  # fmt: skip
    return {
        "direction": "request", "protocol": "tcp", "flags": "SYN", "source": "10.0.0.9", "source_port": 40000,
        "destination": "10.96.0.1", "port": 80, "in_interface": "eth0", "steps": [step], "end": "sent",
        "result": "leaves by eth0", **more,
    }  # fmt: skip
