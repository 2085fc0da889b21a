# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The clusters of the benchmarks have the size that their names promise."""

from __future__ import annotations

from collections import Counter
from random import Random

import pytest
from bench.objects import SLICE_SIZE, as_list, cluster
from bench.proxies.api import endpoints_of, objects_by_service
from bench.report import Row, markdown


def of_kind(objects: list, kind: str) -> list:
    return [one for one in objects if one["kind"] == kind]


@pytest.mark.parametrize(("services", "endpoints", "slices"), [(0, 5, 0), (30, 5, 30), (3, 250, 9), (4, 0, 0)])
def test_cluster_has_the_requested_size(services: int, endpoints: int, slices: int) -> None:
    objects = cluster(services, endpoints)
    assert len(of_kind(objects, "Service")) == services
    made = of_kind(objects, "EndpointSlice")
    assert len(made) == slices
    assert all(len(one["endpoints"]) <= SLICE_SIZE for one in made)
    counts = Counter(
        one["metadata"]["labels"]["kubernetes.io/service-name"] for one in made for _ in one["endpoints"]
    )  # fmt: skip
    assert set(counts.values()) <= {endpoints}
    addresses = [address for one in made for endpoint in one["endpoints"] for address in endpoint["addresses"]]
    assert len(set(addresses)) == len(addresses) == services * endpoints


def test_names_and_addresses_are_unique() -> None:
    objects = cluster(500, 3)
    services = of_kind(objects, "Service")
    assert len({one["spec"]["clusterIP"] for one in services}) == 500
    assert len({(one["kind"], one["metadata"]["name"]) for one in objects}) == len(objects)
    node_ports = [port["nodePort"] for one in services for port in one["spec"]["ports"] if "nodePort" in port]
    assert len(node_ports) == len(set(node_ports)) == 50


def test_the_same_seed_gives_the_same_cluster() -> None:
    assert cluster(20, 2, seed=7) == cluster(20, 2, seed=7)
    assert cluster(20, 2, seed=7) != cluster(20, 2, seed=8)
    assert as_list(cluster(1, 1))["kind"] == "List"


def test_more_than_there_are_addresses_is_an_error() -> None:
    with pytest.raises(ValueError, match="more than there are addresses"):
        cluster(1_000_000, 100)
    with pytest.raises(ValueError, match="service 27688: no node port left"):
        cluster(30_000, 0)


def test_bar_is_compared_with_the_ratio_of_medians() -> None:
    assert Row("a", "b", [1, 2, 30], [4, 4, 4], bar=0.5).met is True
    assert Row("a", "b", [2.1], [4], bar=0.5).met is False
    assert Row("a", "", [3.0], bar=3).met is True
    assert Row("a", "", [3.0]).met is None
    assert "| write | ipvsadm | 50 ms | 0.1 s | 0.5 x | ≤ 0.4 x | **no** | 1 |" in markdown(
        [Row("write", "ipvsadm", [0.05], [0.1], bar=0.4)]
    )


def test_missed_bar_within_the_interval_is_named() -> None:
    dice = Random(1)
    theirs = [dice.uniform(1, 2) for _ in range(100)]
    for factor, verdict in ((0.9, "yes"), (1.02, "**no**, within noise"), (1.3, "**no**")):
        row = Row("a", "b", [factor * dice.uniform(1, 2) for _ in theirs], theirs, bar=1, turns=10)
        assert row.interval is not None
        low, high = row.interval
        assert low < row.result < high
        assert row.verdict == verdict
        assert row.met is (verdict == "yes")
        assert f"{row.result:.3g} x ({low:.3g} to {high:.3g})" in row.cells


def test_turn_that_slows_both_does_not_widen_the_interval() -> None:
    theirs = [float(turn) for turn in range(1, 11) for _ in range(10)]
    assert Row("a", "b", [2 * each for each in theirs], theirs, turns=10).interval == (2, 2)
    assert Row("a", "b", [2 * each for each in theirs], theirs).interval is None
    assert Row("a", "b", [2 * each for each in theirs], theirs, turns=1).interval is None
    assert Row("a", "b", [2 * each for each in theirs for _ in range(3)], theirs, turns=10).interval == (2, 2)


def test_largest_cluster_of_the_comparison_has_its_endpoints() -> None:
    objects = objects_by_service(5_010)
    assert sorted(objects) == list(range(5_010))
    counts = [len(one["endpoints"]) for items in objects.values() for one in of_kind(items, "EndpointSlice")]
    assert sum(counts) == endpoints_of(5_010) == 25_060
    assert endpoints_of(44_125) > 250_000
    of_all = {address for items in objects.values() for one in of_kind(items, "EndpointSlice")
              for endpoint in one["endpoints"] for address in endpoint["addresses"]}  # fmt: skip
    assert len(of_all) == 25_060
    assert not any("nodePort" in one["spec"]["ports"][0] for one in of_kind(objects[5_008], "Service"))
