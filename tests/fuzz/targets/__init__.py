# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""All fuzz targets by name, and the module of each. A target is loaded alone, with imports for its own parser only."""

from __future__ import annotations

from importlib import import_module

from fuzz.target import Target

# Target -> the module of this package that holds it in TARGETS.
MODULES = {
    "service": "objects",
    "slice": "objects",
    "node": "objects",
    "cluster": "cluster",
    "documents": "text",
    "manifests": "text",
    "configuration": "text",
    "kubeconfig": "access",
    "credentials": "access",
    "watch": "api",
    "session": "api",
    "snapshot": "api",
    "protobuf": "protobuf",
    "frames": "protobuf",
    "http": "sockets",
    "control": "sockets",
    "netlink": "netlink",
    "ipvs": "netlink",
    "ipset": "netlink",
    "rtnetlink": "netlink",
    "conntrack": "netlink",
    "nftables": "nftables",
    "nft_trace": "nftables",
    "link_events": "netlink",
    "rule_events": "netlink",
    "proc_ipvs": "tables",
    "ipset_save": "tables",
    "iptables_save": "tables",
    "complaints": "tables",
    "rules": "spelling",
    "members": "spelling",
    "ledger": "ledger",
    "history": "history",
    "history_record": "history",
    "explain_rules": "explain",
    "explain_nftables": "explain",
}


def load(name: str) -> Target:
    """Import the target of this name."""
    target = import_module(f"fuzz.targets.{MODULES[name]}").TARGETS[name]
    assert isinstance(target, Target)
    return target
