# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The kernel of these tests has the features that the project needs."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path


def test_ip_vs_loads_and_balances_nothing_yet() -> None:
    subprocess.run(["modprobe", "-a", "ip_vs", "ip_vs_rr", "dummy", "ip_set", "xt_set", "br_netfilter"], check=True)
    assert Path("/proc/net/ip_vs").read_text(encoding="ascii").startswith("IP Virtual Server version")
    saved = subprocess.run(["ipvsadm", "-Sn"], check=True, capture_output=True, text=True).stdout
    assert saved == ""


def test_iptables_is_the_wanted_one() -> None:
    version = subprocess.run(["iptables", "-V"], check=True, capture_output=True, text=True).stdout
    wanted = {"legacy": "(legacy)", "nft": "(nf_tables)"}[os.environ.get("KUBENODE_IPTABLES", "legacy")]
    assert wanted in version
