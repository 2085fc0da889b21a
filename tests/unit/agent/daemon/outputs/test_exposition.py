# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Metrics: kube-proxy's names, types, labels and buckets, as recorded."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from kubenode.daemon.outputs.exposition import Histogram, Metric, exposition
from kubenode.daemon.outputs.metrics import Metrics

RECORDED = Path(__file__).parents[4] / "golden/http/metrics.txt"


def test_metrics_are_rendered_as_text() -> None:
    counter = Metric("counter", "a_total", "All.", ["code"])
    counter.add(2, "200")
    counter.add(1, 'o"\n\\dd')
    histogram = Histogram("b_seconds", "Time.", ["f"], [0.5, 1, 2.5])
    for value in (0.5, 0.6, 3):
        histogram.observe(value, "x")
    assert exposition([histogram, Metric("gauge", "c", "Nothing yet."), counter]).splitlines() == [
        "# HELP a_total All.",
        "# TYPE a_total counter",
        'a_total{code="200"} 2',
        'a_total{code="o\\"\\n\\\\dd"} 1',
        "# HELP b_seconds Time.",
        "# TYPE b_seconds histogram",
        'b_seconds_bucket{f="x",le="0.5"} 1',
        'b_seconds_bucket{f="x",le="1"} 2',
        'b_seconds_bucket{f="x",le="2.5"} 2',
        'b_seconds_bucket{f="x",le="+Inf"} 3',
        'b_seconds_sum{f="x"} 4.1',
        'b_seconds_count{f="x"} 3',
    ]


def shape(text: str) -> dict[str, tuple[str, str, set[str]]]:
    """Return type, help text and label sets of the samples by name (with le, without the values of code)."""
    families: dict[str, tuple[str, str, set[str]]] = {}
    for line in text.splitlines():
        if line.startswith("# HELP "):
            _hash, _help, name, words = line.split(" ", 3)
            families[name] = ("", words, set())
        elif line.startswith("# TYPE "):
            _hash, _type, name, kind = line.split(" ")
            families[name] = (kind, families[name][1], set())
        elif line.startswith("kubeproxy_"):
            sample = line.rpartition(" ")[0]
            family = re.sub(r"(_bucket|_sum|_count)?(\{.*)?$", "", sample)
            families[family if family in families else sample.partition("{")[0]][2].add(sample)
    return families


@pytest.fixture
def used() -> Metrics:
    metrics = Metrics("1")
    for family in ("IPv4", "IPv6"):
        metrics.sync_seconds.observe(1, family)
        metrics.last_sync.set(1, family)
        metrics.last_queued.set(1, family)
        for policy in ("internal", "external"):
            metrics.no_local_endpoints.set(0, family, policy)
    metrics.conntrack_seconds.observe(1, "IPv4")
    metrics.conntrack_deleted.add(0, "IPv4")
    metrics.healthz.add(1, "200")
    metrics.livez.add(1, "200")
    return metrics


def test_metrics_have_names_of_kube_proxy(used: Metrics) -> None:
    ours = shape(used.text())
    recorded = shape(RECORDED.read_text(encoding="utf-8"))
    assert len(recorded) > 10
    for name, wanted in recorded.items():
        assert ours[name] == wanted


def test_process_metrics_are_measured(used: Metrics) -> None:
    values = dict(line.rsplit(" ", 1) for line in used.text().splitlines() if not line.startswith("#"))
    assert float(values["process_resident_memory_bytes"]) > 10**6
    assert float(values["process_start_time_seconds"]) > 10**9
    assert float(values["process_open_fds"]) >= 3


# Complaints about kube-proxy's own names. All other checks hold for these metrics, too.
KUBE_PROXYS_OWN = {
    "kubeproxy_sync_proxy_rules_no_local_endpoints_total": 'non-counter metrics should not have "_total" suffix',
}


def test_promtool_accepts_the_text(used: Metrics) -> None:
    every_kind_of_value(used)
    done = subprocess.run(
        ["promtool", "check", "metrics"], input=used.text(), capture_output=True, text=True, check=False
    )
    complaints = dict(line.split(" ", 1) for line in done.stderr.splitlines() if line)
    assert complaints == KUBE_PROXYS_OWN
    assert done.returncode == 3  # 1 would mean unreadable text


def test_prometheus_client_reads_what_was_measured(used: Metrics) -> None:
    every_kind_of_value(used)
    families = {family.name: family for family in text_string_to_metric_families(used.text())}
    problems = {sample.labels["about"]: sample.value for sample in families["kubenode_problems"].samples}
    assert problems == {'Service "a"\\b\nc': 2.0}
    metrics = [value for value in vars(used).values() if isinstance(value, (Metric, Histogram))]
    assert {
        metric.name.removesuffix("_total") if metric.kind == "counter" else metric.name for metric in metrics
    } == set(families)
    for metric in metrics:
        family = families[metric.name.removesuffix("_total") if metric.kind == "counter" else metric.name]
        assert (family.type, family.documentation) == (metric.kind, metric.text)


def every_kind_of_value(metrics: Metrics) -> None:
    """Give every metric a value, one with a label that needs escapes."""
    for metric in vars(metrics).values():
        if isinstance(metric, Histogram):
            metric.observe(0.5, *("x" for _label in metric.labels))
        elif isinstance(metric, Metric) and not metric.values:
            metric.set(2, *("x" for _label in metric.labels))
    metrics.problems.replace({('Service "a"\\b\nc',): 2.0})
