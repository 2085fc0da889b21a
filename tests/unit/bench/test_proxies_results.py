# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Rows of the agent beside kube-proxy, made from samples."""

from __future__ import annotations

import pytest
from bench import report
from bench.proxies.results import DIRECT, percentile, rows
from bench.proxies.subjects import AGENT, AGENT_NFTABLES, IPVS, NFTABLES, NFTABLES_DEFAULT
from bench.report import Row


def test_percentile_of_few_samples_is_the_largest() -> None:
    assert percentile([3.0, 1.0, 2.0], 0.99) == 3.0
    assert percentile([float(number) for number in range(200)], 0.5) == 100.0


def test_cold_start_bar_counts_beside_nftables_only() -> None:
    samples = {
        ("cold", AGENT.name, 202): [1.0],
        ("cold", AGENT_NFTABLES.name, 202): [1.0],
        ("cold", IPVS.name, 202): [20.0],
        ("cold", NFTABLES.name, 202): [4.0],
    }
    beside_ipvs, beside_nftables = rows(samples, "1.36.2", {})
    assert beside_nftables.what.endswith(", rules in nftables")
    assert beside_nftables.against == "kube-proxy 1.36.2 nftables, `minSyncPeriod: 1ms`"
    assert beside_nftables.met is False
    assert beside_ipvs.bar is None
    assert beside_ipvs.result == pytest.approx(1 / 20)


def test_own_limit_has_a_row_without_a_peer() -> None:
    samples = {("idle", AGENT_NFTABLES.name, 5000): [0.05], ("idle", NFTABLES_DEFAULT.name, 5000): [0.02]}
    alone, beside = rows(samples, "1.36.2", {"idle 5000": "the bare node takes 0.07 s"})
    assert (alone.theirs, alone.bar, alone.met, alone.note) == ((), 0.1, True, "the bare node takes 0.07 s")
    assert (beside.bar, beside.note) == (None, "")


def test_direct_connection_is_the_zero_of_traffic() -> None:
    samples = {("first", AGENT.name, 1002): [0.002], ("first", DIRECT, 1002): [0.001]}
    own, direct = rows(samples, "", {})
    assert own.against == ""
    assert (direct.against, direct.result) == (DIRECT, 2.0)


def test_peer_without_any_has_no_ratio() -> None:
    samples = {("failed dies", AGENT_NFTABLES.name, 1002): [1.0], ("failed dies", NFTABLES.name, 1002): [0.0]}
    (row,) = rows(samples, "1.36.2", {})
    assert (row.theirs, row.note) == ((), "kube-proxy 1.36.2 nftables, `minSyncPeriod: 1ms`: 0 connections")


def test_sizes_are_in_order_and_only_measured_figures_have_rows() -> None:
    samples = {("peak", AGENT.name, size): [float(size)] for size in (5000, 202, 1002)}
    assert [row.ours for row in rows(samples, "", {})] == [[202.0], [1002.0], [5000.0]]


def test_whole_run_with_kube_proxy_replaces_the_old_table() -> None:
    page = report.page({}, {report.COMPARED: [Row("start", "kube-proxy", [1.0], [2.0])]})
    assert page.count("## Beside kube-proxy") == 1
    assert "another-run" not in page


def test_whole_run_of_the_agent_alone_keeps_the_old_table() -> None:
    assert report.KUBE_PROXY in report.page({}, {report.COMPARED: [Row("start", "", [1.0])]})


def test_merged_comparison_stands_before_the_table_kept_by_hand() -> None:
    merged = report.merged(
        report.page({}, {}), report.COMPARED, [Row("start", "kube-proxy", [1.0], [2.0])], {}, [report.KUBE_PROXY]
    )
    assert merged.index(f"## {report.COMPARED}\n") < merged.index(f"## {report.KUBE_PROXY}\n")
