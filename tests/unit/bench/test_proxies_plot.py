# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Lines of the plot: medians by size for each proxy."""

from __future__ import annotations

from bench.proxies.plot import PANELS, Line, lines
from bench.proxies.subjects import AGENT, NFTABLES


def test_lines_have_medians_in_the_order_of_sizes() -> None:
    samples = {
        ("event", AGENT.name, 1002): [0.004, 0.006, 0.005],
        ("event", AGENT.name, 202): [0.003],
        ("event", NFTABLES.name, 202): [0.13],
        ("cold", AGENT.name, 202): [1.0],
    }
    (panel,) = (panel for panel in PANELS if panel.figure == "event")
    assert lines(samples, panel) == [
        Line("kubenode-agent", [202, 1002], [3.0, 5.0]),
        Line("kube-proxy nftables, minSyncPeriod: 1ms", [202], [130.0]),
    ]


def test_value_of_zero_has_no_place_on_a_logarithmic_axis() -> None:
    (panel,) = (panel for panel in PANELS if panel.figure == "idle")
    assert lines({("idle", AGENT.name, 202): [0.0]}, panel) == []
